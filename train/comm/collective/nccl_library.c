#include "train/comm/collective/nccl_library.h"

#include "loader/cuda/libraries.h"

#include <dlfcn.h>
#include <stdio.h>

#define INSTALL "libnccl2 or the wheel nvidia-nccl-cu13 (CUDA 12: -cu12)"

ff_nccl_version ff_nccl_version_text(int version) {
    ff_nccl_version made;
    const int major = version < 10000 ? 1000 : 10000; /* until 2.8: 2804 is 2.8.4 */
    snprintf(made.text, sizeof made.text, "%d.%d.%d", version / major, version % major / 100,
             version % 100);
    return made;
}

ff_status ff_nccl_library_open(ff_nccl_library *library, ff_error *error) {
    void *handle;
    *library = (ff_nccl_library){0};
    FF_TRY(ff_cuda_library_open(&handle, "NCCL", "libnccl.so.2", INSTALL, error));
    *(void **)&library->version = dlsym(handle, "ncclGetVersion");
    if (!library->version || library->version(&library->found) != FF_ncclSuccess)
        return ff_fail(error, FF_FAILED,
                       "libnccl.so.2 is not NCCL: it does not report its "
                       "version");
    if (library->found < FF_NCCL_LEAST)
        return ff_fail(error, FF_FAILED,
                       "NCCL %s is too old; %d.%d or newer is needed: install " INSTALL
                       ", or name its folder in FFPACK_CUDA_PATH",
                       ff_nccl_version_text(library->found).text, FF_NCCL_LEAST / 10000,
                       FF_NCCL_LEAST / 100 % 100);
#define FIND(member, symbol, result, parameters)                                                   \
    *(void **)&library->member = dlsym(handle, #symbol);                                           \
    if (!library->member)                                                                          \
        return ff_fail(error, FF_FAILED, "NCCL %s has no " #symbol,                                \
                       ff_nccl_version_text(library->found).text);
    FF_NCCL_FUNCTIONS(FIND)
#undef FIND
    return FF_OK;
}
