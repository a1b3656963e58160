/* The module's one exported function (loader/cuda/table.h). */
#include "train/compute/cuda/exports.h"
#include "loader/cuda/device_cuda.h"
#include "loader/cuda/kernels.h"
#include "loader/cuda/ranges.h"
#include "train/compute/cuda/compute.h"
#include "train/compute/cuda/cudnn/library.h"

static const struct ff_train_cuda train = {
    .compute = &ff_cuda_compute_ops,
    .library = &ff_library_cudnn,
    .describe = ff_library_cudnn_describe,
    .comm_create = ff_nccl_create,
};

static const ff_cuda_table table = {
    .build = FF_HEADERS,
    .cuda = FF_CUDA_VERSION,
    .built = "CUDA " FF_CUDA_RELEASE " for sm " FF_CUDA_BUILT,
    .device_count = ff_device_cuda_count,
    .properties = ff_device_cuda_properties,
    .device_create = ff_device_cuda_create,
    .loader = &ff_loader_cuda_kernels,
    .train = &train,
    .range_push = ff_cuda_range_push,
    .range_pop = ff_cuda_range_pop,
};

__attribute__((visibility("default"))) ff_cuda_export ff_cuda_module;
const ff_cuda_table *ff_cuda_module(void) {
    return &table;
}
