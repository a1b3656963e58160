/* What to do about a GPU that cannot be used, for the end of an error. CUDA's runtime ("CUDA
 * Runtime API", cudaError_t), cuDNN (cudnnStatus_t) and cuBLAS ("cuBLAS Status t") report the same
 * troubles, each by codes of its own. */
#ifndef FF_LOADER_CUDA_ADVICE_H
#define FF_LOADER_CUDA_ADVICE_H

#define FF_CUDA_ADVICE_MEMORY                                                                      \
    "; smaller batches and placement stream need less; nvidia-smi shows what else uses the GPU"
#define FF_CUDA_ADVICE_HOST_MEMORY                                                                 \
    "; the host's memory is used up: end other programs, or raise the container's limit"
#define FF_CUDA_ADVICE_TAKEN                                                                       \
    "; another process may have the GPU to itself: see nvidia-smi -q -d COMPUTE"
#define FF_CUDA_ADVICE_DAMAGED "; the GPU's memory is damaged: reset the GPU, or use another one"
/* A GPU that has fallen off the bus is an unknown error, or a failed launch; the driver's log has
 * the reason (NVIDIA's "Xid Errors"). */
#define FF_CUDA_ADVICE_GONE                                                                        \
    "; the GPU may be gone: the driver's reason is in the kernel's log (sudo dmesg | grep Xid)"
/* Handles need some of the GPU's memory, and without it may report no other reason. */
#define FF_CUDA_ADVICE_START                                                                       \
    "; the GPU's memory may be used up, or the driver too old: see nvidia-smi"
#define FF_CUDA_ADVICE_DRIVER                                                                      \
    "; the NVIDIA driver is too old: install a newer one (nvidia-smi shows its version)"
#define FF_CUDA_ADVICE_ARCHITECTURE                                                                \
    "; this version has no code for the GPU: a newer GPU needs a newer version, and a GPU older "  \
    "than Turing cannot be used"
#define FF_CUDA_ADVICE_VERSIONS                                                                    \
    "; files of several versions may be mixed: install cuDNN again, or name the folder of one "    \
    "version in FFPACK_CUDA_PATH"

#endif
