/* The library table (library.h) by cuDNN's graph API and cuBLAS. In the CUDA module only.
 *
 * Plans come from the cache folder, from timing every engine on the card, or from the order of
 * cuDNN's heuristics: in that order, by the options. What is found is written to the cache, plans
 * that were compiled at run time each by itself too, so that a folder filled without a card saves
 * the compiling on one. */
#ifndef FF_TRAIN_CUDA_CUDNN_LIBRARY_H
#define FF_TRAIN_CUDA_CUDNN_LIBRARY_H

#include "train/cuda/library.h"

extern const ff_library_table ff_library_cudnn;

/* The description of a device as options.device_json takes it; the caller frees it. */
FF_MUST_USE ff_status ff_library_cudnn_describe(struct ff_device *device, char **json,
                                                ff_error *error);

#endif
