/* A stand-in for the driver's libcuda.so.1, for a machine with one GPU that cannot compute: only
 * what loader/cuda/driver.c calls. */
int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
    return *version = 99000, 0;
}
int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    (void)flags;
    return 0;
}
int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count) {
    return *count = 1, 0;
}
int cuGetErrorString(int code, const char **text);
int cuGetErrorString(int code, const char **text) {
    (void)code;
    return *text = "none", 0;
}
