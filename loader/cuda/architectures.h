/* Which devices a module's machine code runs on.
 *
 * Code for sm_XY runs on devices of the same X and an equal or higher Y; the PTX of the newest is
 * compiled by the driver for all that are newer (docs.nvidia.com/cuda/cuda-compiler-driver-nvcc,
 * "GPU Compilation"). An architecture with a letter (90a) runs on just that one. */
#ifndef FF_LOADER_CUDA_ARCHITECTURES_H
#define FF_LOADER_CUDA_ARCHITECTURES_H

#include <stdbool.h>

/* `built`: the architectures in rising order, as in "75 80 90"; the device's is major.minor. */
bool ff_cuda_architecture_runs(const char *built, int major, int minor);

#endif
