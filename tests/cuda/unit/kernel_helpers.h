/* Shared by the tests of own kernels: arrays in device memory with a host image, poisoned where a
 * kernel writes, between guard bands. Everything goes through the device table, so the same checks
 * run on the simulator and on a GPU. */
#ifndef FF_TESTS_KERNEL_HELPERS_H
#define FF_TESTS_KERNEL_HELPERS_H

#include "loader/device/device.h"
#include "tests/unit/check.h"
#include "tests/unit/dice.h"
#include "train/compute/cuda/kernels/kernels.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif
#ifdef FF_TESTS_ON_CARD
#include "loader/cuda/device_cuda.h"
#else
#include "tests/cuda/sim/device.h"
#endif

/* A launcher's result. */
#define assert_launched(call) assert_int_equal((call), FF_CUDA_OK)

static inline ff_dtype any_float(dice *d) {
    static const ff_dtype dtypes[] = {FF_F32, FF_F16, FF_BF16};
    return dtypes[roll(d, 3)];
}

/* Under ThreadSanitizer every thread of a block counts as a real one: a few trials suffice to show
 * a race. */
static inline int trials(int count) {
#ifdef __SANITIZE_THREAD__
    return count / 12 + 2;
#else
    return count;
#endif
}

/* ---- arrays --------------------------------------------------------------------------------- */

enum { GUARD = 256, ARRAYS = 64 };

typedef struct array {
    ff_dtype dtype;
    size_t count;
    unsigned char *image, *memory; /* pinned and device, guards included */
    void *host, *device;           /* after the first guard */
} array;

static struct {
    ff_device *device;
    ff_stream *stream;
    array arrays[ARRAYS];
    int count;
} bench;

/* Other random cases with FF_SEED=n, which tests/gpu/run chooses and prints. */
static inline int bench_open(void **state) {
    (void)state;
    ff_error error = {0};
    const char *seed = getenv("FF_SEED");
    if (seed) dice_run = (uint32_t)strtoul(seed, NULL, 10);
#ifdef FF_TESTS_ON_CARD
    ff_status status = ff_device_cuda_create(&bench.device, 0, &error);
#else
    ff_status status = ff_device_sim_create(&bench.device, FF_HOST_STREAMS_CALLER, 0, 0, &error);
#endif
    if (status == FF_OK)
        status = bench.device->table->stream_create(bench.device, &bench.stream, &error);
    if (status != FF_OK) print_message("%s\n", error.message);
    return status != FF_OK;
}
static inline int bench_close(void **state) {
    (void)state;
    bench.device->table->stream_destroy(bench.device, bench.stream);
    ff_device_destroy(&bench.device);
    return 0;
}
/* A device with few multiprocessors, so that small arrays are split into several parts. */
static inline ff_cuda_queue queue_with(int multiprocessors, ff_dtype dtype) {
    return (ff_cuda_queue){bench.device->table->native_stream(bench.device, bench.stream),
                           multiprocessors, dtype};
}
/* For launchers that take their arrays' dtypes. */
static inline ff_cuda_queue queue_of(int multiprocessors) {
    return queue_with(multiprocessors, FF_F32);
}
/* Rows of NHWC. */
static inline ff_tensor rows_of(size_t rows, int channels) {
    return (ff_tensor){(int)rows, channels, 1, 1, channels};
}

static inline size_t whole_bytes(const array *a) {
    return 2 * GUARD + (a->count * ff_dtype_bytes(a->dtype) + 15) / 16 * 16;
}
static inline void bench_wait(void) {
    assert_ok(bench.device->table->stream_synchronize(bench.device, bench.stream, error));
}
/* Under AddressSanitizer a kernel may not even read the guards of simulated device memory. */
static inline void forbid_guards(const array *a, bool forbid) {
#if defined __SANITIZE_ADDRESS__ && !defined FF_TESTS_ON_CARD
    const size_t used = a->count * ff_dtype_bytes(a->dtype);
    unsigned char *end = (unsigned char *)a->device + used;
    if (forbid) {
        ASAN_POISON_MEMORY_REGION(a->memory, GUARD);
        ASAN_POISON_MEMORY_REGION(end, whole_bytes(a) - GUARD - used);
    } else {
        ASAN_UNPOISON_MEMORY_REGION(a->memory, whole_bytes(a));
    }
#else
    (void)a;
    (void)forbid;
#endif
}
/* Copies the host's image to the device. */
static inline void send(const array *a) {
    forbid_guards(a, false);
    assert_ok(bench.device->table->copy(bench.device, bench.stream, a->memory, a->image,
                                        whole_bytes(a), error));
    bench_wait();
    forbid_guards(a, true);
}
/* Copies the device's values to the host; the guards and the padding of the last 16 bytes must be
 * unchanged. */
static inline void fetch(const array *a) {
    bench_wait();
    forbid_guards(a, false);
    assert_ok(bench.device->table->copy(bench.device, bench.stream, a->image, a->memory,
                                        whole_bytes(a), error));
    bench_wait();
    forbid_guards(a, true);
    const size_t used = a->count * ff_dtype_bytes(a->dtype), all = whole_bytes(a);
    for (size_t i = 0; i < GUARD; i++) assert_int_equal(a->image[i], 0xEE);
    for (size_t i = GUARD + used; i < all; i++) assert_int_equal(a->image[i], 0xEE);
}

/* Values: 0xFF everywhere, which is NaN in every floating dtype. */
static inline array *poisoned(ff_dtype dtype, size_t count) {
    assert_true(bench.count < ARRAYS);
    array *a = &bench.arrays[bench.count++];
    a->dtype = dtype;
    a->count = count;
    const ff_device_table *table = bench.device->table;
    assert_ok(
        table->allocate_pinned(bench.device, (void **)&a->image, whole_bytes(a), "a test", error));
    assert_ok(table->allocate(bench.device, (void **)&a->memory, whole_bytes(a), "a test", error));
    memset(a->image, 0xEE, whole_bytes(a));
    memset(a->image + GUARD, 0xFF, count * ff_dtype_bytes(dtype));
    a->host = a->image + GUARD;
    a->device = a->memory + GUARD;
    send(a);
    return a;
}
static inline void drop_arrays(void) {
    for (int i = 0; i < bench.count; i++) {
        forbid_guards(&bench.arrays[i], false);
        bench.device->table->release_pinned(bench.device, bench.arrays[i].image);
        bench.device->table->release(bench.device, bench.arrays[i].memory);
    }
    bench.count = 0;
}

/* Element i of the host's image. */
static inline double at(const array *a, size_t i) {
    return ff_element(a->host, a->dtype, i);
}
static inline void put(const array *a, size_t i, double value) {
    float rounded = (float)value;
    ff_convert((unsigned char *)a->host + i * ff_dtype_bytes(a->dtype), a->dtype, &rounded, FF_F32,
               1);
}
/* Normal values around `mean`; zero in the pad lanes of [..][padded] with `channels` true ones. */
static inline array *filled(dice *d, ff_dtype dtype, size_t rows, int padded, int channels,
                            double mean, double deviation) {
    array *a = poisoned(dtype, rows * (size_t)padded);
    for (size_t i = 0; i < a->count; i++)
        put(a, i, (int)(i % (size_t)padded) < channels ? mean + deviation * gauss(d) : 0);
    send(a);
    return a;
}
/* The same on host and device, for what a kernel changes in place. */
static inline array *copied(const array *from) {
    array *a = poisoned(from->dtype, from->count);
    memcpy(a->host, from->host, from->count * ff_dtype_bytes(from->dtype));
    send(a);
    return a;
}
static inline array *bytes(size_t count) {
    return poisoned(FF_U8, count);
}

/* ---- comparing ------------------------------------------------------------------------------ */

/* Half a unit in the last place, relative to the value, and the spacing near zero. */
static inline double rounding(ff_dtype dtype) {
    return dtype == FF_F16 ? 0x1p-11 : dtype == FF_BF16 ? 0x1p-8 : 0x1p-24;
}
static inline double tiniest(ff_dtype dtype) {
    return dtype == FF_F16 ? 0x1p-24 : 0;
}

/* Checks that element i is `want`, rounded to its dtype, for a computation with an error of at most
 * `error`. */
static inline void assert_near_at(const char *file, int line, const array *a, size_t i, double want,
                                  double error) {
    double found = at(a, i);
    if (isnan(want) && isnan(found)) return;
    if (found == want) return;
    double allowed = error + 1.01 * rounding(a->dtype) * fabs(want) + tiniest(a->dtype);
    if (!(fabs(found - want) <= allowed)) {
        print_error("%s:%d: element %zu of %zu (%s): %.9g, wanted %.9g within %.3g\n", file, line,
                    i, a->count, ff_dtype_name(a->dtype), found, want, allowed);
        fail();
    }
}
#define assert_near(a, i, want, error) assert_near_at(__FILE__, __LINE__, a, i, want, error)

static inline void assert_same(const array *a, const array *b) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->host, b->host, a->count * ff_dtype_bytes(a->dtype));
}

/* Host bytes as device memory. */
static inline array *uploaded(const void *from, size_t size) {
    array *a = bytes(size);
    memcpy(a->host, from, size);
    send(a);
    return a;
}

#endif
