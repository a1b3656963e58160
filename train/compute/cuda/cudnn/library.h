/* The library table (library.h) by cuDNN's graph API and cuBLAS. In the CUDA module only.
 *
 * Plans come from the cache folder, from timing every engine on the GPU, or from the order of
 * cuDNN's heuristics: in this order, depending on the options. Choices are written to the cache.
 * Plans compiled at run time are also written separately, so that a folder filled without a GPU
 * saves compiling on a GPU. */
#ifndef FF_TRAIN_CUDA_CUDNN_LIBRARY_H
#define FF_TRAIN_CUDA_CUDNN_LIBRARY_H

#include "train/compute/cuda/library.h"

extern const ff_library_table ff_library_cudnn;

/* The description of a device in the form of options.device_json; the caller frees it. */
FF_MUST_USE ff_status ff_library_cudnn_describe(struct ff_device *device, char **json,
                                                ff_error *error);

#endif
