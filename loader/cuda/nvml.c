#include "loader/cuda/nvml.h"

#include "format/base/memory.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef struct device_handle *nvml_device; /* NVML's own */
typedef struct utilisation {
    unsigned gpu, memory; /* percent */
} utilisation;
typedef struct memory_sizes {
    unsigned long long total, unused, used;
} memory_sizes;
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, TEMPERATURE_GPU = 0 };

/* X(member, symbol, parameters): every function returns 0 for success. */
#define FUNCTIONS(X)                                                                               \
    X(init, nvmlInit_v2, (void))                                                                   \
    X(shutdown, nvmlShutdown, (void))                                                              \
    X(by_bus, nvmlDeviceGetHandleByPciBusId_v2, (const char *, nvml_device *))                     \
    X(utilisation, nvmlDeviceGetUtilizationRates, (nvml_device, utilisation *))                    \
    X(memory, nvmlDeviceGetMemoryInfo, (nvml_device, memory_sizes *))                              \
    X(clock, nvmlDeviceGetClockInfo, (nvml_device, int, unsigned *))                               \
    X(power, nvmlDeviceGetPowerUsage, (nvml_device, unsigned *))                                   \
    X(temperature, nvmlDeviceGetTemperature, (nvml_device, int, unsigned *))

struct ff_nvml {
    void *library;
    const char *(*error_string)(int);
    nvml_device device;
    int (*number)(nvml_device, unsigned *); /* NULL = not known */
#define MEMBER(member, symbol, parameters) int(*member) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

static ff_status find_functions(ff_nvml *nvml, ff_error *error) {
#define FIND(member, symbol, parameters)                                                           \
    *(void **)&nvml->member = dlsym(nvml->library, #symbol);                                       \
    if (!nvml->member) return ff_fail(error, FF_FAILED, "libnvidia-ml.so.1 has no " #symbol);
    FUNCTIONS(FIND)
#undef FIND
    *(void **)&nvml->error_string = dlsym(nvml->library, "nvmlErrorString");
    *(void **)&nvml->number = dlsym(nvml->library, "nvmlDeviceGetIndex");
    return FF_OK;
}

static ff_status fail(const ff_nvml *nvml, const char *call, int code, ff_error *error) {
    return ff_fail(error, FF_FAILED, "%s failed: %s (NVML error %d)", call,
                   nvml->error_string ? nvml->error_string(code) : "no word for it", code);
}

static ff_status start(ff_nvml *nvml, const char *bus, ff_error *error) {
    int code = nvml->init();
    if (code != 0) return fail(nvml, "nvmlInit_v2", code, error);
    code = nvml->by_bus(bus, &nvml->device);
    if (code == 0) return FF_OK;
    ff_status status = fail(nvml, "nvmlDeviceGetHandleByPciBusId_v2", code, error);
    (void)nvml->shutdown();
    return ff_fail_within(error, status, "%s", bus);
}

ff_status ff_nvml_open(ff_nvml **out, const char *bus, ff_error *error) {
    ff_nvml *nvml;
    *out = NULL;
    FF_TRY(ff_alloc(&nvml, 1, sizeof *nvml, "NVML", error));
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    ff_status status;
    if (!nvml->library)
        FF_TRY_DONE(ff_fail(error, FF_FAILED, "NVML cannot be opened: %s", dlerror()));
    FF_TRY_DONE(find_functions(nvml, error));
    FF_TRY_DONE(start(nvml, bus, error));
    *out = nvml;
    return FF_OK;
done:
    if (nvml->library) (void)dlclose(nvml->library);
    free(nvml);
    return status;
}

void ff_nvml_close(ff_nvml **nvml) {
    if (!*nvml) return;
    (void)(*nvml)->shutdown();
    (void)dlclose((*nvml)->library);
    free(*nvml);
    *nvml = NULL;
}

int ff_nvml_number(const ff_nvml *nvml) {
    unsigned number;
    return nvml->number && nvml->number(nvml->device, &number) == 0 ? (int)number : -1;
}

void ff_nvml_read(const ff_nvml *nvml, ff_nvml_reading *out) {
    utilisation rates;
    memory_sizes sizes;
    unsigned value;
    *out = (ff_nvml_reading){-1, -1, 0, 0, -1, -1, -1, -1};
    if (nvml->utilisation(nvml->device, &rates) == 0) {
        out->gpu_percent = (int)rates.gpu;
        out->memory_percent = (int)rates.memory;
    }
    if (nvml->memory(nvml->device, &sizes) == 0) {
        out->used_bytes = sizes.used;
        out->total_bytes = sizes.total;
    }
    if (nvml->clock(nvml->device, CLOCK_SM, &value) == 0) out->sm_mhz = (int)value;
    if (nvml->clock(nvml->device, CLOCK_MEMORY, &value) == 0) out->memory_mhz = (int)value;
    if (nvml->power(nvml->device, &value) == 0) out->power_mw = (int)value;
    if (nvml->temperature(nvml->device, TEMPERATURE_GPU, &value) == 0)
        out->temperature_c = (int)value;
}
