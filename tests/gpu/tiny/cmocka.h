/* The part of cmocka that the GPU tests use, so that they run on GPU machines without it. Prints
 * TAP. */
#ifndef FF_TESTS_GPU_CMOCKA_H
#define FF_TESTS_GPU_CMOCKA_H

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*function)(void **state);
};
#define cmocka_unit_test(test)                                                                     \
    { #test, test }

static jmp_buf tiny_failed;
static pthread_t tiny_thread; /* runs the tests; a failure in another one ends the program */

static inline void tiny_fail(const char *file, int line, const char *what) {
    printf("# %s:%d: %s\n", file, line, what);
    if (pthread_equal(pthread_self(), tiny_thread)) longjmp(tiny_failed, 1);
    printf("not ok - a thread of a test failed\n");
    fflush(stdout);
    _Exit(1);
}
#define print_message(...) printf("# " __VA_ARGS__)
#define print_error(...)   printf("# " __VA_ARGS__)
#define fail()             tiny_fail(__FILE__, __LINE__, "failed")
#define fail_msg(...)                                                                              \
    do {                                                                                           \
        print_error(__VA_ARGS__);                                                                  \
        printf("\n");                                                                              \
        fail();                                                                                    \
    } while (0)
#define assert_true(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) tiny_fail(__FILE__, __LINE__, #condition);                               \
    } while (0)
#define assert_false(condition)      assert_true(!(condition))
#define assert_non_null(pointer)     assert_true((pointer) != NULL)
#define assert_null(pointer)         assert_true((pointer) == NULL)
#define assert_int_equal(a, b)       assert_true((uintmax_t)(a) == (uintmax_t)(b))
#define assert_int_not_equal(a, b)   assert_true((uintmax_t)(a) != (uintmax_t)(b))
#define assert_float_equal(a, b, e)  assert_true(fabs((double)(a) - (double)(b)) <= (double)(e))
#define assert_memory_equal(a, b, n) assert_true(memcmp(a, b, n) == 0)
#define assert_string_equal(a, b)    assert_true(strcmp(a, b) == 0)

static inline int tiny_run(const struct CMUnitTest *tests, size_t count, int (*open)(void **),
                           int (*close)(void **)) {
    void *state = NULL;
    volatile int failures = 0;        /* kept over the jump */
    setvbuf(stdout, NULL, _IOLBF, 0); /* prints results at once */
    tiny_thread = pthread_self();
    printf("1..%zu\n", count);
    if (open && open(&state) != 0) {
        printf("not ok 1 - the device opens\n");
        return 1;
    }
    for (volatile size_t i = 0; i < count; i++) {
        int failed = setjmp(tiny_failed);
        if (!failed) tests[i].function(&state);
        printf("%s %zu - %s\n", failed ? "not ok" : "ok", i + 1, tests[i].name);
        failures = failures + failed;
    }
    if (close) close(&state);
    return failures;
}
#define cmocka_run_group_tests(tests, open, close)                                                 \
    tiny_run(tests, sizeof(tests) / sizeof((tests)[0]), open, close)

#endif
