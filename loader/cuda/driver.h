/* Looks at NVIDIA's driver, libcuda.so.1, before anything else of CUDA is opened.
 *
 * Its few prototypes are written here (docs.nvidia.com/cuda/cuda-driver-api), so this needs no
 * toolkit. The driver stays open: CUDA's runtime finds it by name. */
#ifndef FF_LOADER_CUDA_DRIVER_H
#define FF_LOADER_CUDA_DRIVER_H

#include "format/base/status.h"

/* That a driver is there, is no stub, can run programs of CUDA `cuda` (13000), and has a device
 * `ordinal`. FF_FAILED in a sentence of its own for each; FF_USAGE where there are devices, but
 * fewer. Makes no context. */
FF_MUST_USE ff_status ff_cuda_driver_check(int cuda, int ordinal, ff_error *error);

#endif
