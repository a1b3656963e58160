/* Batches on a GPU, by the CUDA module. Private to loader/library/. */
#ifndef FF_LOADER_LIBRARY_GPU_H
#define FF_LOADER_LIBRARY_GPU_H

#include "loader/gpu/batches.h"
#include "loader/library/batch.h"
#include "loader/sequence/sequence.h"

/* Zeroed: no GPU. A stream is CUDA's own, as in the device table. */
typedef struct ff_library_gpu {
    ff_library_pool *pool; /* blocks for batches; owns the module and the device */
    const struct ff_loader_kernels *kernels;
    ff_device *device;
    ff_event *done; /* after the last batch in its consumer's stream */
    ff_batches *batches;
    const ff_batch_info *begun; /* the batch between begin and end; NULL = none */
    ff_stream *stream;          /* in which it was begun */
    int current;                /* the caller's device, between enter and leave */
} ff_library_gpu;

/* Around every call that may use the device: the calling thread's current device is the caller's
 * affair, and is the same after the call. Without a device they do nothing. */
void ff_library_gpu_enter(ff_library_gpu *gpu);
void ff_library_gpu_leave(const ff_library_gpu *gpu);

/* A consumer's tensors: names[i] is written to to[i]. */
typedef struct ff_library_tensors {
    const char *const *names;
    const DLTensor *const *to;
    size_t count;
} ff_library_tensors;

/* Finds the module and the device, and enters. The caller closes it also after a failure. */
FF_MUST_USE ff_status ff_library_gpu_open(ff_library_gpu *gpu, int ordinal, ff_error *error);
/* Waits for the work of its batches. Enters and leaves. */
void ff_library_gpu_close(ff_library_gpu *gpu);

/* Makes the batches. */
FF_MUST_USE ff_status ff_library_gpu_start(ff_library_gpu *gpu, ff_dataset *dataset,
                                           const ff_library_settings *settings, ff_error *error);
/* Ends the batch that was begun. */
FF_MUST_USE ff_status ff_library_gpu_seek(ff_library_gpu *gpu, const ff_sequence *sequence,
                                          ff_error *error);

/* The tensors of its batches; FF_USAGE for options that are not possible on a GPU. */
FF_MUST_USE ff_status ff_library_gpu_plan(ff_library_plan **plan, ff_library_gpu *gpu,
                                          ff_dataset *dataset, const ff_library_settings *settings,
                                          ff_error *error);

/* The same as ffload_loader_begin, _write and _end; begun = NULL after the last batch. */
FF_MUST_USE ff_status ff_library_gpu_begin(ff_library_gpu *gpu, ff_stream *stream, ff_error *error);
FF_MUST_USE ff_status ff_library_gpu_write(ff_library_gpu *gpu, const ff_library_plan *plan,
                                           const ff_library_tensors *tensors, ff_stream *stream,
                                           ff_error *error);
FF_MUST_USE ff_status ff_library_gpu_end(ff_library_gpu *gpu, ff_stream *stream, ff_error *error);

/* All three. *info = NULL after the last batch. */
FF_MUST_USE ff_status ff_library_gpu_enqueue(ff_library_gpu *gpu, const ff_library_plan *plan,
                                             const ff_library_tensors *tensors, ff_stream *stream,
                                             const ff_batch_info **info, ff_error *error);

/* The same, into a block of the pool, which the caller returns to the pool. NULL after the last
 * batch. */
FF_MUST_USE ff_status ff_library_gpu_next(ff_library_gpu *gpu, const ff_library_plan *plan,
                                          ff_stream *stream, ff_library_block **block,
                                          const ff_batch_info **info, ff_error *error);

#endif
