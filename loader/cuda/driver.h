/* Checks NVIDIA's driver, libcuda.so.1, before anything else of CUDA is opened.
 *
 * The few prototypes are declared by hand (docs.nvidia.com/cuda/cuda-driver-api), so no toolkit is
 * needed. The driver stays open: CUDA's runtime finds it by name. */
#ifndef FF_LOADER_CUDA_DRIVER_H
#define FF_LOADER_CUDA_DRIVER_H

#include "format/base/status.h"

/* Checks that a driver is installed, is not the stub, supports CUDA version `cuda` (13000), and has
 * a device `ordinal`. FF_FAILED with a separate message for each; FF_USAGE if there are fewer
 * devices. Creates no context. */
FF_MUST_USE ff_status ff_cuda_driver_check(int cuda, int ordinal, ff_error *error);

#endif
