/* The types that C callers of CUDA kernels need. No CUDA header is needed.
 *
 * Launchers are C functions that only enqueue. They take a stream as returned by the device's
 * native_stream, and return 0 or the number of a cudaError_t. */
#ifndef FF_LOADER_CUDA_TYPES_H
#define FF_LOADER_CUDA_TYPES_H

/* A cudaStream_t. With the simulator: what its enqueue hook takes; NULL = run at once. */
typedef void *ff_cuda_stream;

/* Numbers of cudaError_t that launchers return themselves. */
#define FF_CUDA_OK            0
#define FF_CUDA_INVALID_VALUE 1

#endif
