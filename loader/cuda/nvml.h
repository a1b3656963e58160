/* A device's state as reported by the driver's NVML: utilisation, memory, clocks, power.
 *
 * NVML (libnvidia-ml.so.1) comes with the driver and is opened by name; its few prototypes are
 * declared by hand (docs.nvidia.com/deploy/nvml-api). Errors: FF_FAILED if the library or the
 * device is missing. Ownership: the caller closes it. Thread rule: any thread. */
#ifndef FF_LOADER_CUDA_NVML_H
#define FF_LOADER_CUDA_NVML_H

#include "format/base/status.h"

#include <stdint.h>

typedef struct ff_nvml ff_nvml;

/* A reading; -1 (or 0 bytes) for what the device does not report. */
typedef struct ff_nvml_reading {
    int gpu_percent;    /* share of the last period (1/6 s to 1 s) in which a kernel ran */
    int memory_percent; /* in which device memory was read or written */
    uint64_t used_bytes, total_bytes;
    int sm_mhz, memory_mhz;
    int power_mw, temperature_c;
} ff_nvml_reading;

/* `bus`: the device's PCI address ("0000:3b:00.0", ff_cuda_properties): NVML's ordinals ignore
 * CUDA_VISIBLE_DEVICES. */
FF_MUST_USE ff_status ff_nvml_open(ff_nvml **nvml, const char *bus, ff_error *error);
void ff_nvml_close(ff_nvml **nvml); /* NULL is accepted */
/* The device's number among all of the machine, as nvidia-smi's; -1 = not known. */
int ff_nvml_number(const ff_nvml *nvml);
void ff_nvml_read(const ff_nvml *nvml, ff_nvml_reading *reading);

#endif
