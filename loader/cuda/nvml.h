/* What the driver's NVML tells of a device while it works: utilisation, memory, clocks, power.
 *
 * NVML (libnvidia-ml.so.1) comes with the driver and is opened by name; its few prototypes are
 * written here (docs.nvidia.com/deploy/nvml-api). Errors: FF_FAILED where the library or the device
 * is not there. Ownership: whoever opens closes. Thread rule: any thread. */
#ifndef FF_LOADER_CUDA_NVML_H
#define FF_LOADER_CUDA_NVML_H

#include "format/base/status.h"

#include <stdint.h>

typedef struct ff_nvml ff_nvml;

/* A reading; -1 (or 0 bytes) where the device does not tell it. */
typedef struct ff_nvml_reading {
    int gpu_percent;    /* of the last period, a sixth of a second to a second: a kernel ran */
    int memory_percent; /* device memory was read or written */
    uint64_t used_bytes, total_bytes;
    int sm_mhz, memory_mhz;
    int power_mw, temperature_c;
} ff_nvml_reading;

/* `bus`: the device's PCI address ("0000:3b:00.0", ff_cuda_properties): NVML's ordinals do not heed
 * CUDA_VISIBLE_DEVICES. */
FF_MUST_USE ff_status ff_nvml_open(ff_nvml **nvml, const char *bus, ff_error *error);
void ff_nvml_close(ff_nvml **nvml); /* NULL is accepted */
void ff_nvml_read(const ff_nvml *nvml, ff_nvml_reading *reading);

#endif
