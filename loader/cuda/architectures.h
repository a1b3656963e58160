/* Which devices a module's machine code runs on.
 *
 * Code for sm_XY runs on devices of the same X and an equal or higher Y; the driver compiles the
 * PTX of the newest for all newer devices (docs.nvidia.com/cuda/cuda-compiler-driver-nvcc, "GPU
 * Compilation"). Code for an architecture with a letter (90a) runs only on that one. */
#ifndef FF_LOADER_CUDA_ARCHITECTURES_H
#define FF_LOADER_CUDA_ARCHITECTURES_H

#include <stdbool.h>

/* `built`: the architectures in increasing order, as in "75 80 90"; the device is major.minor. */
bool ff_cuda_architecture_runs(const char *built, int major, int minor);

#endif
