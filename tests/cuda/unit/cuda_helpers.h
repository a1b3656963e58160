/* The CUDA compute table in tests. Without FF_TESTS_ON_CARD on a simulated GPU: simulated kernels
 * and the plain library in the stream threads of the asynchronous host device. With it on the GPU
 * that loader/cuda/module.h opens: its kernels, cuDNN and cuBLAS. The same checks run on both;
 * ON_CARD chooses the tolerances where a library sums in another order than the plain loops. */
#ifndef FF_TESTS_CUDA_HELPERS_H
#define FF_TESTS_CUDA_HELPERS_H

#include "tests/unit/train_nets.h"

#include "train/cuda/compute.h"

#ifdef FF_TESTS_ON_CARD
#include "loader/cuda/module.h"
#include "train/cuda/exports.h"
enum { ON_CARD = 1 };
#else
#include "loader/device/host.h"
#include "tests/cuda/sim/cudasim.h"
#include "tests/cuda/sim/library_plain.h"
enum { ON_CARD = 0 };
#endif

typedef struct machine {
    ff_device *device;
    const ff_compute_ops *ops;
    ff_cuda_options cuda;
    struct ff_cuda_module *module; /* of a GPU */
} machine;

/* `library`: for the simulated GPU, whose streams sometimes wait up to delay_ns; a real one has its
 * own. The simulated library may time its engines; real ones are not timed, and are cached where
 * FFPACK_PLAN_CACHE says. */
#ifdef FF_TESTS_ON_CARD
static inline void open_machine(machine *m, const ff_library_table *library, uint64_t delay_ns,
                                uint64_t seed) {
    ff_cuda_properties properties;
    (void)library;
    (void)delay_ns;
    (void)seed;
    assert_ok(ff_cuda_module_open(&m->module, 0, error));
    const ff_cuda_table *table = ff_cuda_module_table(m->module);
    assert_ok(table->properties(0, &properties, error));
    assert_ok(table->device_create(&m->device, 0, error));
    m->ops = table->train->compute;
    m->cuda = (ff_cuda_options){.library = table->train->library,
                                .multiprocessors = properties.multiprocessors,
                                .cache_folder = getenv("FFPACK_PLAN_CACHE")};
}
static inline void close_machine(machine *m) {
    ff_device_destroy(&m->device);
    ff_cuda_module_close(&m->module);
}
/* In place of the plain library, with and without fused graphs: the GPU's own. */
static const ff_library_table *const plain_library, *const library_of_pieces;
#else
static inline void open_machine(machine *m, const ff_library_table *library, uint64_t delay_ns,
                                uint64_t seed) {
    ff_cudasim_enqueue = ff_device_host_enqueue;
    assert_ok(ff_device_host_create(&m->device, FF_HOST_STREAMS_THREADS, delay_ns, seed, error));
    m->ops = &ff_cuda_compute_ops;
    m->cuda = (ff_cuda_options){.library = library, .multiprocessors = 3, .timing_seconds = 1};
}
static inline void close_machine(machine *m) {
    ff_device_destroy(&m->device);
}
static const ff_library_table *const plain_library = &ff_library_plain;
static const ff_library_table *const library_of_pieces = &ff_library_plain_pieces;
#endif

static inline ff_compute *open_cuda(const machine *m, ff_precision precision) {
    const ff_compute_options options = {
        .threads = 1, .precision = precision, .device = m->device, .cuda = &m->cuda};
    ff_compute *compute;
    assert_ok(m->ops->open(&compute, &options, error));
    return compute;
}

/* ---- arrays of the device ---- */

/* `values` in the compute's dtype. */
static inline void round_all(const ff_compute *compute, float *values, size_t count) {
    uint16_t *narrow;
    if (compute->dtype == FF_F32) return;
    assert_ok(ff_alloc(&narrow, count, sizeof *narrow, "a test", error));
    ff_convert(narrow, compute->dtype, values, FF_F32, count);
    ff_convert(values, FF_F32, narrow, compute->dtype, count);
    free(narrow);
}

/* Device memory holding `count` floats as `dtype`. */
static inline void *put(ff_compute *compute, ff_dtype dtype, const float *values, size_t count) {
    void *memory, *narrow;
    const size_t bytes = count * ff_dtype_bytes(dtype);
    assert_ok(ff_compute_allocate(compute, &memory, bytes, "a test", error));
    assert_ok(ff_alloc(&narrow, count, ff_dtype_bytes(dtype), "a test", error));
    ff_convert(narrow, dtype, values, FF_F32, count);
    ff_compute_write(compute, memory, narrow, bytes);
    free(narrow);
    return memory;
}
/* Memory for `count` elements, filled with values that no result has. */
static inline void *room(ff_compute *compute, ff_dtype dtype, size_t count) {
    void *memory;
    const ff_device_table *table = compute->device->table;
    const size_t bytes = count * ff_dtype_bytes(dtype);
    assert_ok(ff_compute_allocate(compute, &memory, bytes, "a test", error));
    assert_ok(table->fill(compute->device, compute->stream, memory, 0xee, bytes, error));
    return memory;
}
/* Reads and releases. */
static inline float *take_floats(ff_compute *compute, ff_dtype dtype, void *memory, size_t count) {
    void *narrow;
    float *values = floats(count);
    assert_ok(ff_alloc(&narrow, count, ff_dtype_bytes(dtype), "a test", error));
    ff_compute_read(compute, narrow, memory, count * ff_dtype_bytes(dtype));
    assert_ok(ff_compute_check(compute, error));
    ff_convert(values, FF_F32, narrow, dtype, count);
    ff_compute_release(compute, memory);
    free(narrow);
    return values;
}
/* The same, from and to NCHW. */
static inline void *put_tensor(ff_compute *compute, const ff_tensor *t, const float *nchw) {
    float *laid = lay_out(t, nchw);
    void *memory = put(compute, compute->dtype, laid, ff_tensor_count(t));
    free(laid);
    return memory;
}
static inline float *take_tensor(ff_compute *compute, const ff_tensor *t, void *memory) {
    float *laid = take_floats(compute, compute->dtype, memory, ff_tensor_count(t));
    float *nchw = flatten(t, laid);
    free(laid);
    return nchw;
}

#endif
