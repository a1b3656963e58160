/* The libraries that the CUDA module needs, in the order in which they are opened.
 *
 * FF_CUDA_LIBRARIES(ROW) lists ROW(name, soname under CUDA 12, soname under CUDA 13, need):
 * NVRTC before cuDNN, which opens it by name for engines compiled as they are needed; cublasLt
 * before cublas, which needs it. NVML comes with the driver: nvml.h. */
#ifndef FF_LOADER_CUDA_LIBRARIES_H
#define FF_LOADER_CUDA_LIBRARIES_H

typedef enum ff_cuda_need { FF_CUDA_NEEDED, FF_CUDA_OPTIONAL } ff_cuda_need;

#define FF_CUDA_LIBRARIES(ROW)                                                                     \
    ROW("NVRTC", "libnvrtc.so.12", "libnvrtc.so.13", FF_CUDA_NEEDED)                               \
    ROW("cuBLASLt", "libcublasLt.so.12", "libcublasLt.so.13", FF_CUDA_NEEDED)                      \
    ROW("cuBLAS", "libcublas.so.12", "libcublas.so.13", FF_CUDA_NEEDED)                            \
    ROW("cuDNN", "libcudnn.so.9", "libcudnn.so.9", FF_CUDA_NEEDED)                                 \
    ROW("NCCL", "libnccl.so.2", "libnccl.so.2", FF_CUDA_OPTIONAL)

#endif
