/* The CUDA compute table in tests. Without FF_TESTS_ON_CARD on a simulated GPU: simulated kernels
 * and the plain library in the stream threads of the asynchronous host device. With it on the GPU
 * that loader/cuda/module.h opens: its kernels, cuDNN and cuBLAS. The same checks run on both;
 * ON_CARD chooses the tolerances for results that a library sums in another order than the plain
 * loops. With FF_TESTS_STRICT on the strict stand-in for CUDA's runtime. */
#ifndef FF_TESTS_CUDA_HELPERS_H
#define FF_TESTS_CUDA_HELPERS_H

#include "tests/unit/train_nets.h"

#include "train/compute/cuda/compute.h"

#ifdef FF_TESTS_ON_CARD
#include "loader/cuda/module.h"
#include "train/compute/cuda/exports.h"
enum { ON_CARD = 1 };
#else
#include "tests/cuda/sim/cudasim.h"
#include "tests/cuda/sim/device.h"
#include "tests/cuda/sim/library_plain.h"
enum { ON_CARD = 0 };
#endif

typedef struct machine {
    ff_device *device;
    const ff_compute_ops *ops;
    ff_cuda_options cuda;
    struct ff_cuda_module *module; /* of a GPU */
} machine;

/* A machine with several GPUs takes the last one. `library`: for the simulated GPU, whose streams
 * sometimes wait up to delay_ns; a real GPU uses its own. The simulated library may time its
 * engines; real engines are not timed, and are cached in FFPACK_PLAN_CACHE. */
#ifdef FF_TESTS_ON_CARD
static inline void open_machine(machine *m, const ff_library_table *library, uint64_t delay_ns,
                                uint64_t seed) {
    ff_cuda_properties properties;
    int count;
    (void)library;
    (void)delay_ns;
    (void)seed;
    assert_ok(ff_cuda_module_open(&m->module, 0, error));
    const ff_cuda_table *table = ff_cuda_module_table(m->module);
    assert_ok(table->device_count(&count, error));
    assert_ok(table->properties(count - 1, &properties, error));
    assert_ok(table->device_create(&m->device, count - 1, error));
    m->ops = table->train->compute;
    m->cuda = (ff_cuda_options){.library = table->train->library,
                                .multiprocessors = properties.multiprocessors,
                                .cache_folder = getenv("FFPACK_PLAN_CACHE")};
}
static inline void close_machine(machine *m) {
    ff_device_destroy(&m->device);
    ff_cuda_module_close(&m->module);
}
/* The GPU's own library replaces the plain one, with and without fused graphs. */
static const ff_library_table *const plain_library, *const library_of_pieces;
#else
/* The simulated GPU's memory is NaN at first, as the strict stand-in's is. */
#ifndef FF_TESTS_STRICT
static const ff_device_table *host_table;
static ff_device_table simulated_table;
static inline ff_status allocate_unwritten(ff_device *device, void **memory, uint64_t bytes,
                                           const char *what, ff_error *error) {
    FF_TRY(host_table->allocate(device, memory, bytes, what, error));
    memset(*memory, 0xff, bytes);
    return FF_OK;
}
#endif

static inline void open_machine(machine *m, const ff_library_table *library, uint64_t delay_ns,
                                uint64_t seed) {
    assert_ok(ff_device_sim_create(&m->device, FF_HOST_STREAMS_THREADS, delay_ns, seed, error));
#ifndef FF_TESTS_STRICT
    if (!host_table) { /* once: not in threads */
        ff_cudasim_enqueue = ff_device_sim_enqueue;
        host_table = m->device->table;
        simulated_table = *host_table;
        simulated_table.allocate = simulated_table.allocate_pinned = allocate_unwritten;
    }
    m->device->table = &simulated_table;
#endif
    m->ops = &ff_cuda_compute_ops;
    m->cuda = (ff_cuda_options){.library = library, .multiprocessors = 3, .timing_seconds = 1};
}
static inline void close_machine(machine *m) {
    ff_device_destroy(&m->device);
}
static const ff_library_table *const plain_library = &ff_library_plain;
static const ff_library_table *const library_of_pieces = &ff_library_plain_pieces;
#endif

/* Makes the first GPU current, before calls that must make their own one current. */
static inline void leave_machine(const machine *m) {
    m->device->table->restore(m->device, 0);
}

static inline ff_compute *open_cuda(const machine *m, ff_precision precision) {
    const ff_compute_options options = {
        .threads = 1, .precision = precision, .device = m->device, .cuda = &m->cuda};
    ff_compute *compute;
    assert_ok(m->ops->open(&compute, &options, error));
    return compute;
}

#endif
