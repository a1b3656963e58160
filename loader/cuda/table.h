/* What the CUDA module, libff_cuda.so, exports: one function that returns one struct.
 *
 * No program links CUDA. Everything that does (kernels, the device table, cuDNN, cuBLAS) is in the
 * module, opened by module.h. The module contains its own copy of the layers below it, and shares
 * with the program only structs defined in headers, so both are built from the same headers by one
 * `make`; `build` refuses a module of other headers. Plain C, without CUDA's headers. */
#ifndef FF_LOADER_CUDA_TABLE_H
#define FF_LOADER_CUDA_TABLE_H

#include "loader/device/device.h"

#include <stdint.h>

typedef struct ff_cuda_properties {
    char name[256];
    int major, minor;                                 /* compute capability: 9, 0 for sm_90 */
    int multiprocessors;                              /* units that run blocks */
    uint64_t memory_bytes;                            /* all of the device's */
    int memory_clock_khz, memory_bus_bits, clock_khz; /* 0: unknown */
    int runtime, driver;                              /* CUDA's numbers: 13000 is 13.0 */
    char bus[32];                                     /* PCI: "0000:3b:00.0" */
} ff_cuda_properties;

struct ff_loader_kernels; /* loader/cuda/kernels.h: launchers that the loader's placements call */
struct ff_train_cuda;     /* train/compute/cuda/exports.h: compute table, planner */

/* Every entry is required. Thread rule: any thread. */
typedef struct ff_cuda_table {
    /* These two never move: they are checked before the rest is used. `build` is the Makefile's
     * checksum of all headers of the layers, FF_HEADERS: when any struct changes, the module
     * is refused until it is rebuilt. */
    uint32_t build;
    int cuda;          /* the toolkit it was built with: 13000 */
    const char *built; /* "CUDA 13.0 for sm 80 90": for messages and logs */

    ff_status (*device_count)(int *count, ff_error *error);
    ff_status (*properties)(int ordinal, ff_cuda_properties *properties, ff_error *error);
    /* The device table of one device; ff_device_destroy ends it. Uses no other device. */
    ff_status (*device_create)(ff_device **device, int ordinal, ff_error *error);

    const struct ff_loader_kernels *loader;
    const struct ff_train_cuda *train;

    /* NVTX: names a range of the calling thread, up to the pop, in the domain "fftrain". Costs
     * nothing without a profiler. */
    void (*range_push)(const char *name);
    void (*range_pop)(void);
} ff_cuda_table;

/* The module's one exported function, by this name: static for the process's life. */
#define FF_CUDA_EXPORT "ff_cuda_module"
typedef const ff_cuda_table *ff_cuda_export(void);

#endif
