/* The simulator: what kernels compute on it, and that it detects the faults it should. */
#include "tests/cuda/sim/cudasim.h"
#include "tests/cuda/sim/self.h"
#include "tests/unit/check.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void sums(void) {
    enum { ROWS = 5, COUNT = 333 };
    static float x[ROWS * COUNT];
    float sum[ROWS + 1];
    for (int i = 0; i < ROWS * COUNT; i++) x[i] = (float)(i % 17);
    sum[ROWS] = -1;
    assert_int_equal(ff_self_sum(0, x, ROWS, COUNT, sum, NULL), 0);
    for (int row = 0; row < ROWS; row++) {
        float want = 0; /* exact: small integers */
        for (int i = 0; i < COUNT; i++) want += x[row * COUNT + i];
        assert_true(sum[row] == want);
    }
    assert_true(sum[ROWS] == -1);
}

static void test_sum(void **state) {
    (void)state;
    sums();
}

static void test_warp(void **state) {
    (void)state;
    unsigned out[5][32], third = 0;
    for (unsigned lane = 0; lane < 32; lane += 3) third |= 1u << lane;
    assert_int_equal(ff_self_warp(out[0], NULL), 0);
    for (unsigned lane = 0; lane < 32; lane++) {
        assert_int_equal(out[0][lane], lane * (lane + 1) / 2);
        assert_int_equal(out[1][lane], lane / 8 * 8 + 3);
        assert_int_equal(out[2][lane], third);
        assert_int_equal(out[3][lane], 31 * 32 / 2);
        assert_int_equal(out[4][lane], 16);
    }
}

static void test_dynamic_shared(void **state) {
    (void)state;
    enum { COUNT = 227 << 10 };
    unsigned char *from = aligned_alloc(16, COUNT), *to = aligned_alloc(16, COUNT);
    for (unsigned i = 0; i < COUNT; i++) from[i] = (unsigned char)(i * 7 + i / 251);
    assert_int_equal(ff_self_reverse(from, to, COUNT, COUNT, 0, NULL), 0);
    for (unsigned i = 0; i < COUNT; i++) assert_int_equal(to[i], from[COUNT - 1 - i]);
    assert_int_not_equal(ff_self_reverse(from, to, COUNT, COUNT + 16, 0, NULL), 0);
    free(from);
    free(to);
}

/* ---- launches into streams ------------------------------------------------------------------ */

static struct {
    void *stream;
    void (*function)(void *context);
    void *context;
    void (*release)(void *context);
} queued;

static int enqueue(void *stream, void (*function)(void *context), void *context,
                   void (*release)(void *context)) {
    queued.stream = stream;
    queued.function = function;
    queued.context = context;
    queued.release = release;
    return 0;
}

static void test_replay(void **state) {
    (void)state;
    float x[2] = {1, 2}, sum = -1;
    ff_cudasim_enqueue = enqueue;
    assert_int_equal(ff_self_sum(0, x, 1, 2, &sum, &queued), 0);
    assert_true(queued.stream == &queued && sum == -1);
    queued.function(queued.context);
    assert_true(sum == 3);
    x[0] = 5; /* a replay reads memory again */
    queued.function(queued.context);
    assert_true(sum == 7);
    queued.release(queued.context);
    ff_cudasim_enqueue = NULL;
}

/* ---- what it finds -------------------------------------------------------------------------- */

typedef void (*fault)(void);

/* Whether a child process with the fault ends because of it; its output is hidden. */
static bool dies(fault commit) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        for (int number = 1; number < 32; number++) signal(number, SIG_DFL); /* not cmocka's */
        commit();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status != 0;
}

static void leave(void) {
    int out[64];
    (void)!ff_self_leave(out, NULL);
}
static unsigned char buffer[64] __attribute__((aligned(16)));
static void beyond_shared(void) {
    (void)!ff_self_reverse(buffer, buffer, 64, 48, 0, NULL);
}
static void unaligned(void) {
    (void)!ff_self_reverse(buffer, buffer, 64, 80, 4, NULL);
}
static void no_barrier(void) {
    static float x[256];
    float sum[32];
    for (int i = 0; i < 50; i++) (void)!ff_self_sum(FF_SELF_NO_BARRIER, x, 1, 256, sum, NULL);
}

static void test_faults(void **state) {
    (void)state;
    assert_true(dies(leave));
#if defined(__SANITIZE_THREAD__)
    (void)beyond_shared;
    (void)unaligned;
    assert_true(dies(no_barrier));
#else
#if defined(__SANITIZE_ADDRESS__)
    assert_true(dies(beyond_shared));
    assert_true(dies(unaligned));
#else
    (void)beyond_shared;
    (void)unaligned;
#endif
    /* Without ThreadSanitizer a missing barrier gives wrong values, because threads run in any
     * order. */
    enum { COUNT = 256 };
    float x[COUNT], sum;
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) x[i] = 1;
    for (int i = 0; i < 50; i++) {
        for (int j = 0; j < COUNT; j++) x[j] = (float)i;
        assert_int_equal(ff_self_sum(FF_SELF_NO_BARRIER, x, 1, COUNT, &sum, NULL), 0);
        wrong += sum != (float)(COUNT * i);
    }
    assert_true(wrong > 10);
    (void)no_barrier;
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults), /* first: it forks before there are threads */
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_warp),
        cmocka_unit_test(test_dynamic_shared),
        cmocka_unit_test(test_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
