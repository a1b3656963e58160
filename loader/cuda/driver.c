#include "loader/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values of CUresult. */
enum { STUB_LIBRARY = 34, NO_DEVICE = 100, SYSTEM_DRIVER_MISMATCH = 803 };

/* The oldest driver of a CUDA version (its release notes, "CUDA Driver"). */
static int oldest_driver(int cuda) {
    return cuda >= 13000 ? 580 : 525;
}

/* By name first; then in the folders of containers and WSL that the linker does not search. */
static void *open_driver(char *why, size_t size) {
    static const char *const files[] = {
        "libcuda.so.1",
        "/usr/lib/wsl/lib/libcuda.so.1",
        "/usr/local/nvidia/lib64/libcuda.so.1",
        "/usr/lib64-nvidia/libcuda.so.1",
    };
    void *handle = dlopen(files[0], RTLD_LAZY | RTLD_LOCAL);
    if (!handle) snprintf(why, size, "%s", dlerror());
    for (size_t i = 1; i < sizeof files / sizeof *files && !handle; i++)
        handle = dlopen(files[i], RTLD_LAZY | RTLD_LOCAL);
    return handle;
}

/* The path of the library that holds `symbol`, and the driver's version, the end of the resolved
 * file name (libcuda.so.580.65.06), or "" without a version in the name. */
static void describe(const void *symbol, char *path, size_t path_size, char *version, size_t size) {
    Dl_info from = {0};
    (void)dladdr(symbol, &from);
    char *true_path = from.dli_fname ? realpath(from.dli_fname, NULL) : NULL;
    const char *number = true_path ? strstr(true_path, ".so.") : NULL;
    snprintf(path, path_size, "%s", from.dli_fname ? from.dli_fname : "libcuda.so.1");
    snprintf(version, size, "%s", number && strlen(number) > 7 ? number + 4 : "");
    free(true_path);
}

ff_status ff_cuda_driver_check(int cuda, int ordinal, ff_error *error) {
    char why[512];
    void *handle = open_driver(why, sizeof why);
    if (!handle)
        return ff_fail(
            error, FF_FAILED,
            "no NVIDIA driver is installed here: libcuda.so.1 does not open (%s); install "
            "NVIDIA's driver %d or newer from the system's packages",
            why, oldest_driver(cuda));
    int (*driver_version)(int *), (*init)(unsigned), (*count_devices)(int *);
    int (*error_string)(int, const char **);
    *(void **)&driver_version = dlsym(handle, "cuDriverGetVersion");
    *(void **)&init = dlsym(handle, "cuInit");
    *(void **)&count_devices = dlsym(handle, "cuDeviceGetCount");
    *(void **)&error_string = dlsym(handle, "cuGetErrorString");
    if (!driver_version || !init || !count_devices || !error_string)
        return ff_fail(error, FF_FAILED,
                       "libcuda.so.1 is not an NVIDIA driver: it lacks cuInit or other functions "
                       "of the driver; install NVIDIA's driver again");
    char path[1024], version[64];
    describe(*(void **)&init, path, sizeof path, version, sizeof version);

    int supports = 0, code = driver_version(&supports);
    if (code != STUB_LIBRARY && code == 0 && supports < cuda / 1000 * 1000)
        return ff_fail(error, FF_FAILED,
                       "the NVIDIA driver is too old: found %s%sfor CUDA %d.%d, and CUDA %d.%d, "
                       "with which this was built, needs driver %d or newer",
                       version, *version ? ", " : "one ", supports / 1000, supports % 1000 / 10,
                       cuda / 1000, cuda % 1000 / 10, oldest_driver(cuda));
    if (code == 0) code = init(0);
    if (code == STUB_LIBRARY)
        return ff_fail(error, FF_FAILED,
                       "%s is the CUDA toolkit's stub, with which programs are linked, and no "
                       "NVIDIA driver: take its folder out of LD_LIBRARY_PATH",
                       path);
    if (code == SYSTEM_DRIVER_MISMATCH)
        return ff_fail(error, FF_FAILED,
                       "%s and the NVIDIA driver that the kernel runs are of different versions: "
                       "restart the machine, or reinstall the driver",
                       path);
    int count = 0;
    if (code == 0) code = count_devices(&count);
    if (code == NO_DEVICE || (code == 0 && count == 0)) {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        return ff_fail(error, FF_FAILED,
                       "the NVIDIA driver%s%s finds no CUDA device%s%s%s; "
                       "see nvidia-smi",
                       *version ? " " : "", version,
                       visible ? "; CUDA_VISIBLE_DEVICES lets it see \"" : "",
                       visible ? visible : "", visible ? "\"" : "");
    }
    if (code != 0) {
        const char *word = NULL;
        (void)error_string(code, &word);
        return ff_fail(error, FF_FAILED,
                       "the NVIDIA driver%s%s does not start: %s (CUDA error %d); see nvidia-smi",
                       *version ? " " : "", version, word ? word : "no word for it", code);
    }
    if (ordinal >= count)
        return ff_fail(error, FF_USAGE, "cuda:%d: there %s %d CUDA device%s here, counted from 0",
                       ordinal, count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    return FF_OK;
}
