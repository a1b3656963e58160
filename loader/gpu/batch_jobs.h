/* The kernels' jobs for the batches of a placement, for one size or one view, and their device
 * memory: created once, then every batch is the same three launches. Private to loader/. */
#ifndef FF_LOADER_BATCH_JOBS_H
#define FF_LOADER_BATCH_JOBS_H

#include "loader/cuda/kernels.h"
#include "loader/gpu/batch_augment.h"
#include "loader/gpu/batches.h"
#include "loader/gpu/resident.h"
#include "loader/host/settings.h"

typedef struct ff_batch_jobs {
    ff_device *device;
    const ff_loader_kernels *kernels;
    void *memory; /* device: batch | black | table | sample_of_place | sampling */
    uint64_t memory_bytes;
    ff_cuda_next next;
    ff_cuda_params params;
    ff_cuda_move move;
    ff_cuda_sets sets;
    bool augments; /* launches augment, not move */
    ff_batch_augment augment;
} ff_batch_jobs;

/* Why the kernels cannot make these batches from stored samples, as a clause for a message; NULL =
 * they can. */
const char *ff_batch_jobs_unable(const ff_loader_settings *settings,
                                 const ff_loader_kernels *kernels);

/* What the jobs of all sizes, or of all views, have in common. The source is `resident` or, if
 * `loader` is not NULL, the loader's slots, whose rows are already augmented unless they are raw.
 */
typedef struct ff_batch_parts {
    const ff_loader_kernels *kernels;
    ff_device *device;
    const ff_resident *resident;
    ff_loader *loader;
    const ff_batch_buffers *buffers;
    uint32_t channels; /* per pixel in `buffers` */
    void *values;      /* device: ff_batch_values_bytes of the largest size */
    /* NULL for the first jobs, which count the batches in device memory. Jobs of further views also
     * read their samples' places from the jobs before. */
    const ff_batch_jobs *before;
    uint32_t view;
} ff_batch_parts;

FF_MUST_USE ff_status ff_batch_jobs_create(ff_batch_jobs *jobs, const ff_loader_settings *settings,
                                           const ff_batch_parts *parts, ff_error *error);
/* Zeroed jobs are accepted. */
void ff_batch_jobs_destroy(ff_batch_jobs *jobs);

/* Enqueues again the batch of the last ff_batch_jobs_enqueue or ff_batch_jobs_place. */
FF_MUST_USE ff_status ff_batch_jobs_repeat(const ff_batch_jobs *jobs, ff_stream *stream,
                                           ff_error *error);
/* Enqueues a seek: the next ff_batch_jobs_enqueue makes batch `number`. A kernel's argument carries
 * the number: a copy would need pinned memory, and allocating or freeing it while another replica's
 * collective spins on its GPU can block until that collective ends, which may wait for this replica
 * (github.com/NVIDIA/nccl/issues/48). */
FF_MUST_USE ff_status ff_batch_jobs_seek(const ff_batch_jobs *jobs, uint64_t number,
                                         ff_stream *stream, ff_error *error);

/* Enqueues the lookup of batch `number`'s place; ff_batch_jobs_repeat then makes the batch. */
FF_MUST_USE ff_status ff_batch_jobs_place(const ff_batch_jobs *jobs, uint64_t number,
                                          ff_stream *stream, ff_error *error);

FF_MUST_USE ff_status ff_batch_jobs_enqueue(const ff_batch_jobs *jobs, ff_stream *stream,
                                            ff_error *error);

/* Like ff_batches_give. */
FF_MUST_USE ff_status ff_batch_jobs_give(const ff_batch_jobs *jobs, const ff_batch_output *output,
                                         size_t count, ff_stream *stream, ff_error *error);

/* FF_FAILED if a launcher returned an error; `what` states what the kernel does, for the
 * message. */
FF_MUST_USE ff_status ff_batch_jobs_launched(const ff_device *device, int code, const char *what,
                                             ff_error *error);

#endif
