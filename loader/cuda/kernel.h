/* The dialect of every .cu file, included first: CUDA C under nvcc; under a plain C++ compiler
 * (tests only) a simulator that runs the same source on the CPU (tests/cuda/sim/cuda_sim.h).
 *
 * What a kernel may use: threadIdx, blockIdx, blockDim, gridDim (x, y, z); static __shared__ arrays
 * and FF_DYNAMIC_SHARED; __syncthreads, __syncwarp, shuffles, __ballot_sync, __any_sync,
 * __all_sync; int2 to float4; __half, __half2, __nv_bfloat16, __nv_bfloat162 through the named
 * conversions and intrinsics (no implicit ones); integer atomics; the float functions of math.h and
 * the intrinsics that cuda_sim.h lists. Everything else, above all inline PTX, must be inside
 * `#ifdef __CUDA_ARCH__` with a plain `#else` branch.
 *
 * Launching, in an extern "C" function that returns int:
 *
 *     return FF_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...);
 *     return FF_LAUNCH((kernel<float, 4>), grid, block, shared_bytes, stream, arguments...);
 *
 * grid and block: dim3 or a number; shared_bytes: of FF_DYNAMIC_SHARED, up to 227 KiB if the device
 * supports it; stream: an ff_cuda_stream. Arguments are converted to the kernel's parameters and
 * copied at the call. Returns 0 or the number of a cudaError_t. */
#ifndef FF_LOADER_CUDA_KERNEL_H
#define FF_LOADER_CUDA_KERNEL_H

#include "loader/cuda/types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include <cuda_sim.h>
#endif

/* More than 48 KiB of dynamic shared memory must be requested. */
template <typename Kernel>
static inline cudaError_t ff_cuda_allow_shared(Kernel *kernel, size_t bytes) {
    if (bytes <= 48u << 10) return cudaSuccess;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

#ifdef __CUDACC__

template <typename... Parameters, typename... Arguments>
static inline int ff_cuda_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                 size_t shared_bytes, ff_cuda_stream stream,
                                 Arguments... arguments) {
    cudaError_t status = ff_cuda_allow_shared(kernel, shared_bytes);
    if (status != cudaSuccess) return (int)status;
    kernel<<<grid, block, shared_bytes, (cudaStream_t)stream>>>(arguments...);
    return (int)cudaGetLastError();
}

#define FF_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                  \
    ff_cuda_launch(kernel, grid, block, shared_bytes, stream, __VA_ARGS__)

/* At most one per kernel: `type *name`, aligned to 16 bytes. */
#define FF_DYNAMIC_SHARED(type, name)                                                              \
    extern __shared__ __align__(16) unsigned char ff_dynamic_shared[];                             \
    type *name = (type *)ff_dynamic_shared

#else

#define FF_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                  \
    (ff_cuda_allow_shared(kernel, shared_bytes) != cudaSuccess                                     \
         ? (int)cudaErrorInvalidValue                                                              \
         : ff_sim_launch({__FILE__, #kernel}, kernel, grid, block, shared_bytes, stream,           \
                         __VA_ARGS__))
#define FF_DYNAMIC_SHARED(type, name) type *name = (type *)ff_sim_dynamic_shared()

#endif

#endif
