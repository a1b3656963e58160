/* Shared by the tests of the trainer: random numbers, layouts, small nets of every layer. */
#ifndef FF_TESTS_TRAIN_HELPERS_H
#define FF_TESTS_TRAIN_HELPERS_H

#include "format/base/memory.h"
#include "tests/unit/check.h"
#include "tests/unit/dice.h"
#include "train/compute/compute.h"
#include "train/net/plan.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline float *floats(size_t count) {
    float *memory;
    assert_ok(ff_alloc_aligned(&memory, count, sizeof *memory, 64, "a test", error));
    memset(memory, 0, count * sizeof *memory);
    return memory;
}
static inline float *random_floats(dice *d, size_t count) {
    float *memory = floats(count);
    for (size_t i = 0; i < count; i++) memory[i] = gauss(d);
    return memory;
}

static inline size_t logical_count(const ff_tensor *t) {
    return (size_t)t->n * t->c * t->h * t->w;
}
/* From NCHW into a tensor's layout, and back (which also checks that padding is zero). */
static inline float *lay_out(const ff_tensor *t, const float *nchw) {
    float *laid = floats(ff_tensor_count(t));
    for (int n = 0; n < t->n; n++)
        for (int c = 0; c < t->c; c++)
            for (int h = 0; h < t->h; h++)
                for (int w = 0; w < t->w; w++) laid[ff_tensor_at(t, n, c, h, w)] = *nchw++;
    return laid;
}
static inline float *flatten(const ff_tensor *t, const float *laid) {
    float *nchw = floats(logical_count(t)), *to = nchw;
    size_t place = 0, padding = 0;
    for (int n = 0; n < t->n; n++)
        for (int c = 0; c < t->c; c++)
            for (int h = 0; h < t->h; h++)
                for (int w = 0; w < t->w; w++) *to++ = laid[ff_tensor_at(t, n, c, h, w)];
    for (int n = 0; n < t->n; n++)
        for (int c = t->c; c < ff_tensor_padded_channels(t); c++)
            for (place = 0; place < (size_t)t->h * t->w; place++)
                padding += laid[ff_tensor_at(t, n, c, (int)place / t->w, (int)place % t->w)] != 0;
    assert_int_equal(padding, 0);
    return nchw;
}

/* The largest difference, relative to the root mean square of the expected values. */
static inline double difference(const float *right, const float *got, size_t count) {
    double squares = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        squares += (double)right[i] * (double)right[i];
        double apart = fabs((double)right[i] - (double)got[i]);
        if (!(apart <= largest)) largest = apart; /* NaN too */
    }
    double scale = sqrt(squares / (double)(count ? count : 1));
    return largest == 0 ? 0 : largest / (scale > 1e-6 ? scale : 1e-6);
}
#define assert_close(right, got, count, tolerance)                                                 \
    do {                                                                                           \
        double apart_ = difference(right, got, count);                                             \
        if (!(apart_ <= (tolerance))) print_message("%s: %g apart\n", #got, apart_);               \
        assert_true(apart_ <= (tolerance));                                                        \
    } while (0)

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

/* ---- a net by itself: graph, plan, parameters ---- */

typedef struct net {
    ff_graph *graph;
    ff_compute *compute;
    ff_plan *plan;
    ff_store store;
} net;

/* On an open compute, which the net then owns. */
static inline void open_net_on(net *n, void (*build)(ff_graph *graph), int channels, int height,
                               int width, int batch, ff_compute *compute) {
    n->compute = compute;
    assert_ok(ff_graph_create(&n->graph, channels, height, width, error));
    build(n->graph);
    assert_ok(ff_graph_check(n->graph, error));
    assert_ok(ff_plan_create(&n->plan, n->graph, n->compute, batch, true, NULL, NULL, error));
    assert_ok(
        ff_store_create(&n->store, n->graph, n->compute, n->plan->convs, n->plan->tensors, error));
    assert_ok(ff_store_initialise(&n->store, &(uint64_t){7}, error));
    n->plan->store = &n->store;
    n->plan->seed = 7;
}
static inline void open_net(net *n, void (*build)(ff_graph *graph), int channels, int height,
                            int width, int batch, const char *name, int threads) {
    const ff_compute_options options = {.threads = threads};
    ff_compute *compute;
    assert_ok(ff_compute_open(&compute, name, &options, error));
    open_net_on(n, build, channels, height, width, batch, compute);
}
/* The totals of a batch, with the backward pass if `training`; waits. */
static inline ff_outcome run_plan(ff_plan *plan, const ff_batch *batch, bool training) {
    ff_outcome *place, outcome;
    assert_ok(ff_compute_allocate(plan->compute, &place, sizeof *place, "a test", error));
    ff_device *device = plan->compute->device;
    device->table->restore(device, 0); /* of several GPUs another one is current */
    ff_plan_enqueue(plan, batch, training, place, 1, NULL);
    ff_compute_read(plan->compute, &outcome, place, sizeof outcome);
    assert_ok(ff_compute_check(plan->compute, error));
    ff_compute_release(plan->compute, place);
    return outcome;
}
/* [batch, classes] of what ran last, on the host. */
static inline const float *logits_of(const ff_plan *plan) {
    return ff_plan_at(plan, plan->logits);
}
static inline void close_net(net *n) {
    assert_ok(ff_compute_wait(n->compute, error));
    ff_store_destroy(&n->store);
    ff_plan_destroy(&n->plan);
    ff_compute_close(&n->compute);
    ff_graph_destroy(&n->graph);
}

#endif
