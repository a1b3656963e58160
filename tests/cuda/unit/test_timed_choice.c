/* Choosing among engines by time, with the test's own clock; and the timer on the host device's
 * asynchronous streams, where a run is a wait of known length. */
#include "tests/unit/train_helpers.h"

#include "tests/cuda/sim/device.h"
#include "train/compute/cuda/engine_timer.h"
#include "train/compute/cuda/timed_choice.h"

#include <stdatomic.h>
#include <time.h>

enum { MOST = 16 };

/* Engines whose runs take as long as the test says; only runs advance the clock. */
typedef struct bench {
    double clock, seconds[MOST]; /* below 0 = cannot run */
    int runs[MOST], order[MOST], tried, finished[MOST];
    double compile[MOST]; /* below 0 = cannot be compiled */
    int compiled[MOST];
} bench;

static double now(void *context) {
    return ((bench *)context)->clock;
}
static double run(void *context, int candidate) {
    bench *b = context;
    if (!b->runs[candidate]++) b->order[b->tried++] = candidate;
    if (b->seconds[candidate] > 0) b->clock += b->seconds[candidate];
    return b->seconds[candidate];
}
static bool compile(void *context, int candidate) {
    bench *b = context;
    b->compiled[candidate]++;
    b->clock += fabs(b->compile[candidate]);
    return b->compile[candidate] >= 0;
}
static void finished(void *context, int candidate) {
    ((bench *)context)->finished[candidate]++;
}

static int choose(bench *b, const int64_t *engines, int count, double budget) {
    ff_choice choice = {.count = count,
                        .engines = engines,
                        .repeats = 3,
                        .budget_seconds = budget,
                        .context = b,
                        .now = now,
                        .run = run,
                        .finished = finished};
    int best;
    double seconds;
    assert_ok(ff_choose(&choice, &best, &seconds, error));
    assert_true(best < 0 || seconds == b->seconds[best]);
    for (int i = 0; i < count; i++) assert_int_equal(b->finished[i], b->runs[i] > 0);
    return best;
}

static void engines_then_knobs_of_the_two_best(void **state) {
    (void)state;
    int64_t engines[] = {7, 7, 3, 3, 9, 9, 5, 5};
    bench b = {.seconds = {2, 4, 1, 0.5, 9, 0.1, 1.5, 2.5}};
    /* 9 is the slowest at first, so its better knobs are never tried; 3 and 5 are the two best. */
    assert_int_equal(choose(&b, engines, 8, 1e9), 3);
    int order[] = {0, 2, 4, 6, 3, 7};
    assert_int_equal(b.tried, 6);
    assert_memory_equal(b.order, order, sizeof order);
    assert_int_equal(b.runs[0], 4);
    assert_int_equal(b.runs[4], 1); /* more than three times the best: dropped */
}

/* Only the second run is quick. */
static double run_unsteadily(void *context, int candidate) {
    bench *b = context;
    b->clock += 1;
    return b->runs[candidate]++ == 1 ? b->seconds[candidate] : 2 * b->seconds[candidate];
}

static void the_fastest_run_counts(void **state) {
    (void)state;
    int64_t engines[] = {1, 2, 3};
    bench b = {.seconds = {2, 1.5, 1.8}};
    const ff_choice choice = {.count = 3,
                              .engines = engines,
                              .repeats = 3,
                              .budget_seconds = 100,
                              .context = &b,
                              .now = now,
                              .run = run_unsteadily};
    int best;
    double seconds;
    assert_ok(ff_choose(&choice, &best, &seconds, error));
    assert_int_equal(best, 1);
    assert_true(seconds == 1.5);
}

static void what_cannot_run_is_skipped(void **state) {
    (void)state;
    int64_t engines[] = {1, 2, 2, 3};
    bench b = {.seconds = {-1, -1, 3, -1}};
    assert_int_equal(choose(&b, engines, 4, 1e9), 2); /* knobs where no first one ran */
    bench none = {.seconds = {-1, -1, -1, -1}};
    assert_int_equal(choose(&none, engines, 4, 1e9), -1);
    assert_int_equal(choose(&none, engines, 0, 1e9), -1);
}

/* Candidate 2 breaks the device at its run number `breaks`. */
static int breaks;
static double run_until_lost(void *context, int candidate) {
    bench *b = context;
    const double seconds = run(context, candidate);
    return candidate == 2 && b->runs[2] == breaks ? NAN : seconds;
}

static void after_a_lost_device_nothing_runs(void **state) {
    (void)state;
    int64_t engines[] = {1, 1, 2, 3};
    for (breaks = 1; breaks <= 3; breaks++) {
        bench b = {.seconds = {2, 1, 1, 1}};
        const ff_choice choice = {.count = 4,
                                  .engines = engines,
                                  .repeats = 3,
                                  .budget_seconds = 100,
                                  .context = &b,
                                  .now = now,
                                  .run = run_until_lost,
                                  .finished = finished};
        int best;
        double seconds;
        assert_ok(ff_choose(&choice, &best, &seconds, error));
        assert_int_equal(best, -1);
        assert_int_equal(b.runs[2], breaks);
        assert_int_equal(b.runs[1] + b.runs[3], 0);
    }
}

static void the_budget_is_kept(void **state) {
    (void)state;
    int64_t engines[] = {1, 2, 3, 4};
    bench b = {.seconds = {-1, 5, 1, 0.1}};
    assert_int_equal(choose(&b, engines, 4, 4), 1); /* the first that runs, however long it takes */
    assert_int_equal(b.runs[1], 1);
    assert_int_equal(b.runs[2], 0);
    bench c = {.seconds = {1, 1, 1, 1}};
    assert_int_equal(choose(&c, engines, 4, 5.5), 0);
    assert_int_equal(c.runs[0] + c.runs[1], 6); /* 0 four times, 1 until the time was up */
    assert_int_equal(c.runs[2], 0);
    bench nothing = {.seconds = {-1, 2, 1, 1}};
    assert_int_equal(choose(&nothing, engines, 4, 0), 1);
}

/* On random times: the choice is never worse than the best of the first candidates. */
static void the_choice_is_the_best_tried(void **state) {
    (void)state;
    dice d = {.seed = 5};
    for (int trial = 0; trial < 500; trial++) {
        int64_t engines[MOST];
        bench b = {0};
        int count = between(&d, 1, MOST);
        double best = INFINITY;
        for (int i = 0; i < count; i++) {
            engines[i] = between(&d, 1, 6);
            b.seconds[i] = roll(&d, 4) ? 0.1 + between(&d, 0, 30) : -1;
        }
        int chosen = choose(&b, engines, count, roll(&d, 2) ? 1e9 : between(&d, 0, 100));
        for (int i = 0; i < count; i++)
            if (b.runs[i] && b.seconds[i] >= 0) best = fmin(best, b.seconds[i]);
        assert_true(chosen < 0 ? best == INFINITY : b.seconds[chosen] == best);
    }
}

/* Compiling is not part of the budget, and has its own bound. */
static void compiling_is_counted_apart(void **state) {
    (void)state;
    int64_t engines[] = {1, 2, 3, 4};
    bool uncompiled[] = {false, true, true, true};
    bench b = {.seconds = {1, 0.9, 0.8, 0.7}, .compile = {0, 100, -100, 100}};
    ff_choice choice = {.count = 4,
                        .engines = engines,
                        .repeats = 1,
                        .budget_seconds = 5.1,
                        .uncompiled = uncompiled,
                        .compile_seconds = 1000,
                        .context = &b,
                        .now = now,
                        .compile = compile,
                        .run = run};
    int best;
    double seconds;
    assert_ok(ff_choose(&choice, &best, &seconds, error));
    assert_int_equal(best, 3);
    assert_int_equal(b.runs[0] + b.runs[1] + b.runs[3], 6);
    assert_int_equal(b.runs[2], 0); /* cannot be compiled */
    for (int i = 0; i < 4; i++) assert_int_equal(b.compiled[i], i > 0);

    bench c = {.seconds = {1, 0.9, 0.8, 0.7}, .compile = {0, 100, 100, 100}};
    choice.context = &c;
    choice.compile_seconds = 150; /* nothing is started after it */
    assert_ok(ff_choose(&choice, &best, &seconds, error));
    assert_int_equal(best, 2);
    assert_int_equal(c.compiled[3], 0);
    /* If nothing else runs, something is compiled nevertheless. */
    bench d = {.seconds = {-1, 0.9, 0.8, 0.7}, .compile = {0, 100, 100, 100}};
    choice.context = &d;
    choice.compile_seconds = 0;
    assert_ok(ff_choose(&choice, &best, &seconds, error));
    assert_int_equal(best, 1);
    assert_int_equal(d.compiled[2] + d.compiled[3], 0);
}

static void convolutions_share_what_is_left(void **state) {
    (void)state;
    ff_choice_budget budget = {.expected = 10, .asked = 1};
    assert_true(ff_choice_share(&budget, 20) == 2);
    budget.asked = 6;
    assert_true(ff_choice_share(&budget, 20) == 4);
    budget.asked = 10; /* the estimate may have been too low: something is kept */
    assert_true(ff_choice_share(&budget, 20) == 5);
    budget.asked = 50;
    assert_true(ff_choice_share(&budget, 20) == 5);
    assert_true(ff_choice_share(&budget, -1) == 0);
    budget.expected = 0;
    assert_true(ff_choice_share(&budget, 16) == 2);
}

/* ---- the timer ---- */

typedef struct engine {
    const ff_library_conv_spec *spec;
    int calls, sets;
    const void *x[FF_TIMER_SETS], *workspace;
    atomic_int runs;
} engine;

static void work(void *context) {
    atomic_fetch_add(&((engine *)context)->runs, 1);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}
static ff_status enqueue(void *context, void *native, const ff_library_conv_arguments *a,
                         void *workspace, ff_error *error) {
    engine *e = context;
    int set = 0;
    while (set < e->sets && e->x[set] != a->x) set++;
    if (set == e->sets) e->x[e->sets++] = a->x;
    ff_library_conv_sizes size = ff_library_conv_bytes(e->spec);
    assert_true(a->x && a->w && a->y && a->bias && a->scale && a->shift && a->sum &&
                a->square_sum && a->relu_y && a->norm_x && a->mean && a->gamma && a->offset);
    assert_true((const char *)a->w >= (const char *)a->x + size.x);
    assert_true((const char *)a->y >= (const char *)a->w + size.w);
    e->workspace = workspace;
    e->calls++;
    if (ff_device_sim_enqueue(native, work, e, NULL)) return ff_fail(error, FF_FAILED, "not taken");
    return FF_OK;
}

static ff_status fail_to_synchronize(ff_device *device, ff_stream *stream, ff_error *error) {
    (void)device, (void)stream;
    return ff_fail(error, FF_FAILED, "an illegal memory access was encountered");
}

static void the_timer_measures_recorded_runs(void **state) {
    (void)state;
    ff_device *device;
    ff_engine_timer *timer;
    ff_library_conv_spec spec = {.pass = FF_PASS_BACKWARD_DATA,
                                 .precision = FF_PRECISION_F16,
                                 .n = 3,
                                 .h = 56,
                                 .w = 56,
                                 .c = 64,
                                 .k = 64,
                                 .kernel = 3,
                                 .groups = 1,
                                 .stride = 1,
                                 .pad = 1,
                                 .epilogue = FF_EPILOGUE_RELU_BACKWARD};
    engine e = {.spec = &spec};
    double seconds;
    assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_THREADS, 0, 1, error));
    assert_ok(ff_engine_timer_create(&timer, device, error));
    assert_ok(ff_engine_timer_take(timer, &spec, error));
    assert_ok(ff_engine_timer_prepare(timer, enqueue, &e, 1000, error));
    assert_non_null(e.workspace);
    assert_int_equal(e.sets, FF_TIMER_SETS);
    assert_int_equal(e.calls, e.sets + FF_TIMER_LAUNCHES);
    assert_int_equal(atomic_load(&e.runs), e.sets); /* recorded, not run */
    for (int i = 1; i <= 2; i++) {
        assert_ok(ff_engine_timer_measure(timer, &seconds, error));
        assert_int_equal(atomic_load(&e.runs), e.sets + i * FF_TIMER_LAUNCHES);
        assert_true(seconds >= 0.002 && seconds < 60);
    }
    /* Its buffers hold numbers of the storage type, not zeros and not NaN. */
    for (int set = 0; set < e.sets; set++) {
        double squares = 0;
        for (size_t i = 0; i < 1000; i++) {
            double x = ff_element(e.x[set], FF_F16, i);
            assert_true(x >= -1 && x <= 1);
            squares += x * x;
        }
        assert_true(squares > 200);
    }
    engine other = {.spec = &spec};
    assert_ok(ff_engine_timer_prepare(timer, enqueue, &other, 0, error));
    assert_ok(ff_engine_timer_measure(timer, &seconds, error));
    assert_int_equal(atomic_load(&other.runs), other.sets + FF_TIMER_LAUNCHES);
    assert_false(ff_engine_timer_lost(timer));
    ff_device_table lost = *device->table;
    const ff_device_table *whole = device->table;
    lost.stream_synchronize = fail_to_synchronize;
    device->table = &lost;
    assert_true(ff_engine_timer_lost(timer));
    device->table = whole;
    ff_engine_timer_destroy(&timer);
    assert_null(timer);
    ff_device_destroy(&device);
}

/* The host's table, with counters. */
static struct {
    ff_device_table table;
    const ff_device_table *real;
    int allocations, uploads, copies;
    const char *pinned;
    uint64_t pinned_bytes;
} counted;
static ff_status count_allocate(ff_device *device, void **memory, uint64_t bytes, const char *what,
                                ff_error *error) {
    counted.allocations++;
    return counted.real->allocate(device, memory, bytes, what, error);
}
static ff_status count_pinned(ff_device *device, void **memory, uint64_t bytes, const char *what,
                              ff_error *error) {
    FF_TRY(counted.real->allocate_pinned(device, memory, bytes, what, error));
    counted.pinned = *memory;
    counted.pinned_bytes = bytes;
    return FF_OK;
}
static ff_status count_copy(ff_device *device, ff_stream *stream, void *to, const void *from,
                            uint64_t bytes, ff_error *error) {
    const char *at = from;
    const bool upload = at >= counted.pinned && at < counted.pinned + counted.pinned_bytes;
    counted.uploads += upload;
    counted.copies += !upload;
    return counted.real->copy(device, stream, to, from, bytes, error);
}

/* Random data goes to the device once; memory only grows; what is copied there is never zero. */
static void the_timer_is_filled_on_the_device(void **state) {
    (void)state;
    ff_device *device;
    ff_engine_timer *timer;
    ff_library_conv_spec spec = {.precision = FF_PRECISION_F16,
                                 .n = 3,
                                 .h = 56,
                                 .w = 56,
                                 .c = 64,
                                 .k = 64,
                                 .kernel = 3,
                                 .groups = 1,
                                 .stride = 1,
                                 .pad = 1};
    assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_THREADS, 0, 1, error));
    counted.real = device->table;
    counted.table = *device->table;
    counted.table.allocate = count_allocate;
    counted.table.allocate_pinned = count_pinned;
    counted.table.copy = count_copy;
    device->table = &counted.table;
    assert_ok(ff_engine_timer_create(&timer, device, error));
    int allocations = 0;
    for (int i = 0; i < 4; i++) {
        engine e = {.spec = &spec};
        spec.n = i < 2 ? 3 - i : 2 + i; /* 3 2 4 5 */
        spec.epilogue = FF_EPILOGUE_RELU_BACKWARD;
        spec.pass = FF_PASS_BACKWARD_DATA;
        assert_ok(ff_engine_timer_take(timer, &spec, error));
        assert_ok(ff_engine_timer_prepare(timer, enqueue, &e, 1000, error));
        assert_int_equal(counted.uploads, 1);
        /* Smaller ones reuse the memory. */
        if (i == 1) assert_int_equal(counted.allocations, allocations);
        allocations = counted.allocations;
        const size_t elements = ff_library_conv_bytes(&spec).x / 2;
        for (int set = 0; set < e.sets; set++) {
            assert_true(ff_element(e.x[set], FF_F16, 0) != ff_element(e.x[set], FF_F16, 1));
            assert_true(ff_element(e.x[set], FF_F16, elements - 1) != 0);
        }
    }
    assert_true(counted.copies <= 4 * 32); /* sizes double */
    ff_engine_timer_rest(timer);
    assert_ok(ff_engine_timer_take(timer, &spec, error));
    assert_int_equal(counted.uploads, 1);
    ff_engine_timer_destroy(&timer);
    ff_device_destroy(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_then_knobs_of_the_two_best),
        cmocka_unit_test(the_fastest_run_counts),
        cmocka_unit_test(what_cannot_run_is_skipped),
        cmocka_unit_test(after_a_lost_device_nothing_runs),
        cmocka_unit_test(the_budget_is_kept),
        cmocka_unit_test(the_choice_is_the_best_tried),
        cmocka_unit_test(compiling_is_counted_apart),
        cmocka_unit_test(convolutions_share_what_is_left),
        cmocka_unit_test(the_timer_measures_recorded_runs),
        cmocka_unit_test(the_timer_is_filled_on_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
