/* The timer of cuDNN's engines over the strict stand-in for CUDA's runtime: what the timer waits
 * for before it frees memory, destroys graphs and reads times. Compiled as kernels are for it. */
#include "loader/cuda/device_cuda.h"
#include "tests/cuda/sim/device.h"
#include "tests/unit/check.h"
#include "train/compute/cuda/engine_timer.h"

#include <stdlib.h>

enum { SMALL = 1000, LARGE = 100000, NEVER = -1 };

static ff_library_conv_spec spec_of(int size) {
    return (ff_library_conv_spec){.pass = FF_PASS_BACKWARD_DATA,
                                  .precision = FF_PRECISION_F16,
                                  .n = 1,
                                  .h = size,
                                  .w = size,
                                  .c = 8,
                                  .k = 8,
                                  .kernel = 1,
                                  .groups = 1,
                                  .stride = 1,
                                  .epilogue = FF_EPILOGUE_RELU_BACKWARD};
}

/* Runs that are enqueued before one is refused. */
typedef struct engine {
    int runs;
    size_t workspace_bytes;
} engine;

typedef struct run {
    ff_library_conv_arguments arguments;
    char *workspace;
    size_t workspace_bytes;
} run;

static void work(void *context) {
    const run *r = context;
    *(char *)r->arguments.x = *(const char *)r->arguments.y;
    r->workspace[0] = r->workspace[r->workspace_bytes - 1] = 1;
}

static ff_status enqueue(void *context, void *native, const ff_library_conv_arguments *arguments,
                         void *workspace, ff_error *error) {
    engine *e = context;
    if (e->runs-- == 0) return ff_fail(error, FF_FAILED, "refused by the test");
    run *r = malloc(sizeof *r);
    assert_non_null(r);
    *r = (run){*arguments, workspace, e->workspace_bytes};
    assert_int_equal(ff_device_sim_enqueue(native, work, r, free), 0);
    return FF_OK;
}

typedef struct bench {
    ff_device *device;
    ff_engine_timer *timer;
} bench;

static void open_bench(bench *b) {
    assert_ok(ff_device_cuda_create(&b->device, 0, error));
    assert_ok(ff_engine_timer_create(&b->timer, b->device, error));
}
static void close_bench(bench *b) {
    ff_engine_timer_destroy(&b->timer);
    ff_device_destroy(&b->device);
}

static void take(const bench *b, int size) {
    const ff_library_conv_spec spec = spec_of(size);
    assert_ok(ff_engine_timer_take(b->timer, &spec, error));
}
static ff_status prepare(const bench *b, int runs, size_t workspace_bytes) {
    engine e = {runs, workspace_bytes};
    return ff_engine_timer_prepare(b->timer, enqueue, &e, workspace_bytes, NULL);
}
static void measure(const bench *b, size_t workspace_bytes) {
    double seconds = -1;
    assert_int_equal(prepare(b, NEVER, workspace_bytes), FF_OK);
    for (int i = 0; i < 2; i++) {
        assert_ok(ff_engine_timer_measure(b->timer, &seconds, error));
        assert_true(seconds > 0 && seconds < 60);
    }
}

/* Each convolution and each engine needs more memory than the one before, or less. */
static void engines_are_measured_in_turn(void **state) {
    bench b;
    (void)state;
    open_bench(&b);
    for (int size = 4; size <= 16; size *= 2) {
        take(&b, size);
        measure(&b, SMALL);
        measure(&b, LARGE);
        measure(&b, SMALL);
    }
    ff_engine_timer_rest(b.timer);
    take(&b, 8);
    measure(&b, SMALL);
    close_bench(&b);
}

/* An engine that refuses its last run leaves the others enqueued. */
static void an_engine_fails(void **state) {
    (void)state;
    for (int runs = FF_TIMER_SETS - 1; runs <= FF_TIMER_SETS + 1; runs += 2) {
        bench b;
        open_bench(&b);
        take(&b, 4);
        assert_int_equal(prepare(&b, runs, SMALL), FF_FAILED);
        measure(&b, LARGE); /* a larger workspace */
        assert_int_equal(prepare(&b, runs, SMALL), FF_FAILED);
        take(&b, 16); /* larger tensors */
        assert_int_equal(prepare(&b, runs, SMALL), FF_FAILED);
        ff_engine_timer_rest(b.timer);
        take(&b, 4);
        assert_int_equal(prepare(&b, runs, SMALL), FF_FAILED);
        close_bench(&b);
    }
}

static ff_status gone(ff_device *device, ff_stream *stream, ff_error *error) {
    (void)device;
    (void)stream;
    return ff_fail(error, FF_FAILED, "the GPU is gone");
}

/* The tensors are copied on the device, and nothing runs. */
static void nothing_is_measured(void **state) {
    bench b;
    (void)state;
    open_bench(&b);
    take(&b, 4);
    ff_engine_timer_rest(b.timer);
    take(&b, 4);
    take(&b, 16);
    assert_false(ff_engine_timer_lost(b.timer));
    const ff_device_table *kept = b.device->table;
    ff_device_table lost = *kept;
    lost.stream_synchronize = gone;
    b.device->table = &lost;
    assert_true(ff_engine_timer_lost(b.timer));
    b.device->table = kept;
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_are_measured_in_turn),
        cmocka_unit_test(an_engine_fails),
        cmocka_unit_test(nothing_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
