/* Chooses among engines by timing them, within a budget.
 *
 * First one candidate of each engine is tried, in the order passed; then the other candidates
 * (other knobs) of the two fastest engines. Each runs once. A candidate over 3 times slower than
 * the best so far is dropped; any other runs more often, and its fastest run counts. Nothing is
 * started after the budget is spent, but one candidate that runs is always found if there is any.
 * Compiling is not part of that budget: it has its own bound, beyond which candidates that would
 * have to be compiled are skipped.
 *
 * The caller provides clock and runs, so this is tested without a GPU. */
#ifndef FF_TRAIN_CUDA_TIMED_CHOICE_H
#define FF_TRAIN_CUDA_TIMED_CHOICE_H

#include "format/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ff_choice {
    int count;              /* candidates, best guess first */
    const int64_t *engines; /* [count]: the engine of each */
    int repeats;            /* further runs of a candidate that is not dropped */
    double budget_seconds;
    const bool *uncompiled; /* [count]: must be compiled before it runs; NULL = none must */
    double compile_seconds; /* bound of compiling: no compilation starts after it */
    void *context;
    double (*now)(void *context); /* seconds */
    /* Seconds of one run; below 0 if the candidate cannot run: `run` is then not called again for
     * it. NaN if no other candidate can run either: `run` is not called again. The first call for a
     * candidate also prepares it, outside the measured time. */
    double (*run)(void *context, int candidate);
    /* Compiles an `uncompiled` candidate, before its first run; false if this is not possible. */
    bool (*compile)(void *context, int candidate);
    void (*finished)(void *context,
                     int candidate); /* optional: called when a candidate will not run again */
} ff_choice;

/* The fastest candidate, and its seconds; -1 if no candidate can run. FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_choose(const ff_choice *choice, int *best, double *seconds,
                                ff_error *error);

/* Seconds left for all convolutions of a net. Only distinct convolutions count: those planned or
 * cached before take no time. */
typedef struct ff_choice_budget {
    double timing, compiling; /* seconds left */
    int expected;             /* the number of convolutions in total; 0 = unknown */
    int asked;                /* chosen so far, including the current one */
} ff_choice_budget;

/* The current convolution's share of `left`, equal to the shares of those to come. If `expected`
 * was too low, something is left for the last convolutions. */
double ff_choice_share(const ff_choice_budget *budget, double left);

#endif
