/* The libraries that the CUDA module needs, and the places where they are looked for.
 *
 * ff_cuda_libraries_open opens each by full path, in the list's order, from the first place that
 * has it under the name of the CUDA version:
 *   FFPACK_CUDA_PATH (the environment's: folders, separated by colons)
 *   the program's folder, and its ../lib
 *   nvidia-* wheels next to the package ffload, if the program's folder is its bin or lib; they
 *   come first, because PyTorch uses these in the same process
 *   the system's libraries, as the dynamic linker finds them
 *   /usr/local/cuda/lib64 and its like
 *   nvidia-* wheels: of VIRTUAL_ENV, of CONDA_PREFIX, of each python3 in PATH, of the user
 *   the folders in which the build found the libraries
 * The search begins with the place where the previous library was found, since libraries from one
 * place fit together.
 *
 * Once a library is open, the dynamic linker uses it for libraries that need it by name, so
 * LD_LIBRARY_PATH is neither needed nor changed. Libraries stay open. NVRTC's builtins are opened
 * with NVRTC, which loads them by name alone; cuDNN finds its own parts next to itself. */
#ifndef FF_LOADER_CUDA_LIBRARIES_H
#define FF_LOADER_CUDA_LIBRARIES_H

#include "format/base/memory.h"

/* ROW(name, file and wheel under CUDA 12, file and wheel under CUDA 13), in the order in which they
 * are opened: NVRTC before cuDNN, which opens it by name for engines compiled at runtime; cuBLASLt
 * before cuBLAS, which needs it. NVML comes with the driver (nvml.h); NCCL is opened where it is
 * used. */
#define FF_CUDA_LIBRARIES(ROW)                                                                     \
    ROW("NVRTC", "libnvrtc.so.12", "nvidia-cuda-nvrtc-cu12", "libnvrtc.so.13",                     \
        "nvidia-cuda-nvrtc")                                                                       \
    ROW("cuBLASLt", "libcublasLt.so.12", "nvidia-cublas-cu12", "libcublasLt.so.13",                \
        "nvidia-cublas")                                                                           \
    ROW("cuBLAS", "libcublas.so.12", "nvidia-cublas-cu12", "libcublas.so.13", "nvidia-cublas")     \
    ROW("cuDNN", "libcudnn.so.9", "nvidia-cudnn-cu12", "libcudnn.so.9", "nvidia-cudnn-cu13")

/* The oldest accepted cuDNN, as cudnnGetVersion counts: 9.8. */
enum { FF_CUDNN_LEAST = 90800 };

/* `program`: the program's folder; `cuda`: 13000. `notes` gets a line if NVRTC's builtins are
 * missing. FF_FAILED names the first library that is missing, what to install and the places
 * searched, or why one could not be opened, or that cuDNN is for another CUDA or too old. */
FF_MUST_USE ff_status ff_cuda_libraries_open(const char *program, int cuda, ff_buffer *notes,
                                             ff_error *error);

/* Opens one more library, `file`, called `name` in messages, for the runs that need it. `install`:
 * the packages that have it. Same places and errors; the library stays open. */
FF_MUST_USE ff_status ff_cuda_library_open(void **handle, const char *name, const char *file,
                                           const char *install, ff_error *error);

#endif
