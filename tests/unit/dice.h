/* Random numbers for tests. */
#ifndef FF_TESTS_DICE_H
#define FF_TESTS_DICE_H

#include "loader/sequence/philox.h"

/* A stream of random numbers; the same in every run of a program, unless it sets dice_run. */
typedef struct dice {
    uint64_t seed, next;
} dice;

static uint32_t dice_run;

static inline ff_random throw_dice(dice *d, uint32_t domain) {
    return ff_philox_draw(d->seed, domain, dice_run, d->next++, 0);
}
/* 0 to count - 1. */
static inline uint32_t roll(dice *d, uint32_t count) {
    return ff_random_below(throw_dice(d, 1000).word[0], count);
}
/* low to high, both included. */
static inline int between(dice *d, int low, int high) {
    return low + (int)roll(d, (uint32_t)(high - low + 1));
}
/* In [0, 1). */
static inline float uniform(dice *d) {
    return ff_random_unit(throw_dice(d, 1002).word[0]);
}
/* Roughly normal: mean 0, standard deviation 1. */
static inline float gauss(dice *d) {
    ff_random r = throw_dice(d, 1001);
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += ff_random_unit(r.word[i]);
    return (sum - 2.0f) * 1.7320508f;
}

#endif
