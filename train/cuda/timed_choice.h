/* Choosing among engines by timing them, within a budget.
 *
 * First one candidate of each engine, in the order given; then the other candidates (other knobs)
 * of the two fastest engines. Each runs once; one that takes over 3 times the best of its first
 * runs so far is dropped, another one runs more often, and its fastest run counts. Nothing is begun
 * once the budget is spent, but one candidate that runs is always found where there is one. The
 * time of compiling is no part of that budget; it has a bound of its own, past which a candidate
 * that would have to be compiled is passed over.
 *
 * Time and runs are the caller's, so this is tested without a card. */
#ifndef FF_TRAIN_CUDA_TIMED_CHOICE_H
#define FF_TRAIN_CUDA_TIMED_CHOICE_H

#include "format/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ff_choice {
    int count;              /* candidates, best guess first */
    const int64_t *engines; /* [count]: the engine of each */
    int repeats;            /* runs of one that is not dropped, after the first */
    double budget_seconds;
    const bool *uncompiled; /* [count]: must be compiled before it runs; NULL = none */
    double compile_seconds; /* bound of compiling: nothing is begun past it */
    void *context;
    double (*now)(void *context); /* seconds */
    /* Seconds of one run; below 0 where the candidate cannot run, and is not asked again. The
     * first call for a candidate prepares what it needs, outside of what is told. */
    double (*run)(void *context, int candidate);
    /* Of those that are `uncompiled`, before the first run; false where it cannot be. */
    bool (*compile)(void *context, int candidate);
    void (*finished)(void *context, int candidate); /* optional: it is not run again */
} ff_choice;

/* The fastest candidate, and its seconds; -1 where none can run. FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_choose(const ff_choice *choice, int *best, double *seconds,
                                ff_error *error);

/* Seconds that are left for all convolutions of a net. Only those are counted that are no others
 * again: what was planned or cached before takes no time. */
typedef struct ff_choice_budget {
    double timing, compiling; /* seconds left */
    int expected;             /* how many are going to be asked for; 0 = unknown */
    int asked;                /* so far, with the one at hand */
} ff_choice_budget;

/* What of `left` the one at hand may take: an equal share with those to come. An estimate that was
 * too low leaves something for the last ones. */
double ff_choice_share(const ff_choice_budget *budget, double left);

#endif
