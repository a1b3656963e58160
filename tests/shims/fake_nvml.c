/* A stand-in for libnvidia-ml.so.1: one device, at the PCI address 0000:3b:00.0, with all readings
 * except its power. */
#include <stdio.h>
#include <string.h>

#define EXPORT(function, ...)                                                                      \
    int function(__VA_ARGS__);                                                                     \
    int function(__VA_ARGS__)

enum { NOT_FOUND = 6, NOT_SUPPORTED = 3 };
static int device, started;

EXPORT(nvmlInit_v2, void) {
    started++;
    return 0;
}

EXPORT(nvmlShutdown, void) {
    puts("NVML was shut down");
    fflush(stdout);
    started--;
    return 0;
}

const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code) {
    return code == NOT_FOUND ? "Not Found" : "another";
}

EXPORT(nvmlDeviceGetHandleByPciBusId_v2, const char *bus, void **handle) {
    *handle = &device;
    return strcmp(bus, "0000:3b:00.0") == 0 ? 0 : NOT_FOUND;
}

EXPORT(nvmlDeviceGetIndex, void *handle, unsigned *number) {
    *number = 5;
    return handle != &device;
}

EXPORT(nvmlDeviceGetUtilizationRates, void *handle, unsigned *rates) {
    rates[0] = 97;
    rates[1] = 41;
    return handle != &device;
}

EXPORT(nvmlDeviceGetMemoryInfo, void *handle, unsigned long long *sizes) {
    sizes[0] = 143ull << 30;
    sizes[1] = 100ull << 30;
    sizes[2] = 43ull << 30;
    return handle != &device;
}

EXPORT(nvmlDeviceGetClockInfo, void *handle, int which, unsigned *mhz) {
    *mhz = which == 1 ? 1980 : which == 2 ? 3201 : 0;
    return handle != &device;
}

EXPORT(nvmlDeviceGetPowerUsage, void *handle, unsigned *milliwatts) {
    (void)handle, (void)milliwatts;
    return NOT_SUPPORTED;
}

EXPORT(nvmlDeviceGetTemperature, void *handle, int which, unsigned *celsius) {
    (void)handle;
    *celsius = 61;
    return which;
}
