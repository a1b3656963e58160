/* The module's table, as it ships, in place of loader/cuda/module.c, which opens it from a file. Of
 * what ships cuDNN's description of the device alone is another. */
#include "loader/cuda/module.h"

#include "format/base/memory.h"
#include "loader/cuda/device_cuda.h"
#include "tests/cuda/sim/device.h"
#include "train/compute/cuda/cudnn/library.h"

#include <stdlib.h>

struct ff_cuda_module {
    int ordinal;
};

ff_cuda_export ff_cuda_module_of_strict __asm__(FF_CUDA_EXPORT);

ff_status ff_cuda_module_open(ff_cuda_module **module, int ordinal, ff_error *error) {
    int count;
    *module = NULL;
    FF_TRY(ff_cuda_module_of_strict()->device_count(&count, error));
    if (ordinal >= count)
        return ff_fail(error, FF_FAILED, "cuda:%d: there are %d simulated GPUs", ordinal, count);
    return ff_alloc(module, 1, sizeof **module, "a module", error);
}

void ff_cuda_module_close(ff_cuda_module **module) {
    free(*module);
    *module = NULL;
}

const ff_cuda_table *ff_cuda_module_table(const ff_cuda_module *module) {
    (void)module;
    return ff_cuda_module_of_strict();
}

const char *ff_cuda_module_notes(const ff_cuda_module *module) {
    const char *notes = getenv("FF_SIM_NOTES");
    (void)module;
    return notes ? notes : "";
}

ff_status ff_library_cudnn_describe(ff_device *device, char **json, ff_error *error) {
    (void)device;
    return ff_copy_string(json,
                          "{\"deviceName\": \"simulated GPU\", \"deviceVer\": 900, "
                          "\"totalGlobalMem\": 8589934592, \"multiProcessorCount\": 4}",
                          error);
}

/* In place of the simulated device: the module's. */
ff_status ff_device_sim_create(ff_device **device, ff_host_streams streams, uint64_t delay_ns,
                               uint64_t seed, ff_error *error) {
    (void)streams, (void)delay_ns, (void)seed;
    return ff_device_cuda_create(device, 0, error);
}
