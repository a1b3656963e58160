/* Choosing among engines by timing them, within a budget.
 *
 * First one candidate of each engine, in the order given; then the other candidates (other knobs)
 * of the two fastest engines. Each runs once; one that takes over 3 times the best of its first
 * runs so far is dropped, another one runs more often, and its fastest run counts. Nothing is begun
 * once the budget is spent, but one candidate that runs is always found where there is one.
 *
 * Time and runs are the caller's, so this is tested without a card. */
#ifndef FF_TRAIN_CUDA_PLAN_CHOICE_H
#define FF_TRAIN_CUDA_PLAN_CHOICE_H

#include "format/base/status.h"

#include <stdint.h>

typedef struct ff_choice {
    int count;              /* candidates, best guess first */
    const int64_t *engines; /* [count]: the engine of each */
    int repeats;            /* runs of one that is not dropped, after the first */
    double budget_seconds;
    void *context;
    double (*now)(void *context); /* seconds */
    /* Seconds of one run; below 0 where the candidate cannot run, and is not asked again. The
     * first call for a candidate prepares what it needs, outside of what is told. */
    double (*run)(void *context, int candidate);
    void (*finished)(void *context, int candidate); /* optional: it is not run again */
} ff_choice;

/* The fastest candidate, and its seconds; -1 where none can run. FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_choose(const ff_choice *choice, int *best, double *seconds,
                                ff_error *error);

#endif
