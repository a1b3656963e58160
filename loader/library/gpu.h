/* Batches on a GPU, by the CUDA module. Private to loader/library/. */
#ifndef FF_LOADER_LIBRARY_GPU_H
#define FF_LOADER_LIBRARY_GPU_H

#include "loader/batches.h"
#include "loader/cuda/module.h"
#include "loader/library/plan.h"

/* Zeroed: none. */
typedef struct ff_library_gpu {
    ff_cuda_module *module;
    ff_device *device;
    ff_event *done; /* after the last batch in its consumer's stream */
    ff_batches *batches;
} ff_library_gpu;

/* Finds the module and the device. On failure it is still to be closed. */
FF_MUST_USE ff_status ff_library_gpu_open(ff_library_gpu *gpu, int ordinal, ff_error *error);
/* Waits for the work of its batches. */
void ff_library_gpu_close(ff_library_gpu *gpu);

/* Makes the batches anew, from epoch and position on; on failure there are none. */
FF_MUST_USE ff_status ff_library_gpu_start(ff_library_gpu *gpu, ff_dataset *dataset,
                                           const ff_library_settings *settings, uint32_t epoch,
                                           uint64_t position, ff_error *error);

/* The tensors of its batches; FF_USAGE where options are not possible on a GPU. */
FF_MUST_USE ff_status ff_library_gpu_plan(ff_library_plan **plan, const ff_library_gpu *gpu,
                                          ff_dataset *dataset, const ff_library_settings *settings,
                                          ff_error *error);

/* Enqueues the next batch into the tensors. *info = NULL after the last one. */
FF_MUST_USE ff_status ff_library_gpu_enqueue(ff_library_gpu *gpu, const ff_library_plan *plan,
                                             const char *const *names, const DLTensor *const *to,
                                             size_t count, void *stream, const ff_batch_info **info,
                                             ff_error *error);

#endif
