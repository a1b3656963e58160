/* The CUDA module's exports for the trainer (`train` of loader/cuda/table.h). */
#ifndef FF_TRAIN_CUDA_EXPORTS_H
#define FF_TRAIN_CUDA_EXPORTS_H

#include "train/comm/collective/nccl.h"
#include "train/compute/cuda/library.h"

struct ff_train_cuda {
    /* The compute table (compute.h), which needs the library in its options. */
    const struct ff_compute_ops *compute;
    /* cuDNN and cuBLAS: library.h. Planning without a GPU needs only FF_CUDA_NO_DEVICE. */
    const ff_library_table *library;
    /* A device's description in the form of ff_library_options.device_json; the caller frees it. */
    ff_status (*describe)(struct ff_device *device, char **json, ff_error *error);
    /* NCCL: ff_nccl_create. */
    ff_status (*comm_create)(ff_comm **comm, struct ff_device *device,
                             const ff_nccl_options *options, ff_error *error);
};

#endif
