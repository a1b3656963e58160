/* The kernels' jobs for a placement's batches, and what they need in device memory: made once, then
 * every batch is the same three launches. Private to loader/. */
#ifndef FF_LOADER_BATCH_JOBS_H
#define FF_LOADER_BATCH_JOBS_H

#include "loader/batch_augment.h"
#include "loader/batches.h"
#include "loader/cuda/kernels.h"
#include "loader/resident.h"
#include "loader/settings.h"

typedef struct ff_batch_jobs {
    ff_device *device;
    const ff_loader_kernels *kernels;
    void *memory; /* device: batch | black | table | sample_of_place */
    uint64_t memory_bytes;
    ff_cuda_next next;
    ff_cuda_params params;
    ff_cuda_move move;
    bool augments; /* the kernels of augment instead of move */
    ff_batch_augment augment;
} ff_batch_jobs;

/* Why the kernels cannot make the settings's batches from samples as stored, as a part of a
 * sentence; NULL = they can. */
const char *ff_batch_jobs_unable(const ff_loader_settings *settings,
                                 const ff_loader_kernels *kernels);

/* For batches of `channels` channels a pixel into `buffers`: from `resident`, or, where that has no
 * samples, from the slots of `loader`, whose rows are augmented already unless they are raw. */
FF_MUST_USE ff_status ff_batch_jobs_create(ff_batch_jobs *jobs, const ff_loader_settings *settings,
                                           const ff_loader_kernels *kernels, ff_device *device,
                                           const ff_resident *resident, const ff_loader *loader,
                                           const ff_batch_buffers *buffers, uint32_t channels,
                                           ff_error *error);
/* A zeroed one is accepted. */
void ff_batch_jobs_destroy(ff_batch_jobs *jobs);

/* The batch of the last enqueue once more. */
FF_MUST_USE ff_status ff_batch_jobs_repeat(const ff_batch_jobs *jobs, ff_stream *stream,
                                           ff_error *error);
/* The next enqueue makes batch `number`. Waits for the device. */
FF_MUST_USE ff_status ff_batch_jobs_seek(const ff_batch_jobs *jobs, uint64_t number,
                                         ff_error *error);

FF_MUST_USE ff_status ff_batch_jobs_enqueue(const ff_batch_jobs *jobs, ff_stream *stream,
                                            ff_error *error);

#endif
