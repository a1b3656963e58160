/* The plain loops in f32 and in bf16, for the same entry on inputs that bf16 holds. */
#ifndef FF_TESTS_BF16_CASE_H
#define FF_TESTS_BF16_CASE_H

#include "tests/unit/train_helpers.h"

/* The same entry in both dtypes. */
enum { WIDE, NARROW, BOTH };

static inline int open_both(void **state) {
    static ff_compute *both[BOTH];
    for (int k = 0; k < BOTH; k++) {
        const ff_compute_options options = {
            .threads = 2, .precision = k == NARROW ? FF_PRECISION_BF16 : FF_PRECISION_F32};
        assert_ok(ff_compute_open(&both[k], "reference", &options, error));
    }
    assert_int_equal(both[NARROW]->dtype, FF_BF16);
    *state = both;
    return 0;
}
static inline int close_both(void **state) {
    ff_compute **both = *state;
    for (int k = 0; k < BOTH; k++) ff_compute_close(&both[k]);
    return 0;
}

/* Random values that bf16 holds. */
static inline float *draws(ff_compute **both, dice *d, size_t count) {
    float *values = random_floats(d, count);
    round_all(both[NARROW], values, count);
    return values;
}

/* Both results of an entry, which are released. */
static inline void expect(ff_compute **both, ff_dtype narrow, void *const memory[BOTH],
                          size_t count) {
    float *wide = take_floats(both[WIDE], FF_F32, memory[WIDE], count);
    float *got = take_floats(both[NARROW], narrow, memory[NARROW], count);
    if (narrow == FF_BF16) round_all(both[NARROW], wide, count);
    assert_memory_equal(got, wide, count * sizeof *got);
    free(wide);
    free(got);
}

static inline void put_both(ff_compute **both, const float *values, size_t count,
                            void *memory[BOTH]) {
    for (int k = 0; k < BOTH; k++) memory[k] = put(both[k], both[k]->dtype, values, count);
}
static inline void room_both(ff_compute **both, size_t count, void *memory[BOTH]) {
    for (int k = 0; k < BOTH; k++) memory[k] = room(both[k], both[k]->dtype, count);
}
static inline void release_both(ff_compute **both, void *memory[BOTH]) {
    for (int k = 0; k < BOTH; k++) ff_compute_release(both[k], memory[k]);
}

#endif
