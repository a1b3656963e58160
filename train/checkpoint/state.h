/* What a run must know, besides its model's values and its optimizer's state, to go on where it
 * was: a copy of everything that changes while it trains. Plain data; pure functions. */
#ifndef FF_TRAIN_RUN_STATE_H
#define FF_TRAIN_RUN_STATE_H

#include "format/base/memory.h"
#include "train/control.h"

/* Sums over the steps of the epoch so far. */
typedef struct ff_epoch_sums {
    double loss_sum;
    int64_t count, correct;
    uint64_t skipped;           /* updates */
    double loss_scale;          /* of the last step */
    uint64_t samples;           /* with and without labels */
    uint64_t train_ns, wait_ns; /* before the run was resumed, in this epoch */
} ff_epoch_sums;

/* Totals over the run. */
typedef struct ff_run_totals {
    uint64_t steps, samples;
    uint64_t skipped; /* updates */
    uint64_t train_ns, wait_ns;
    uint64_t val_ns, last_val_ns;   /* of all evaluations, and of the last one */
    uint32_t val_epoch, best_epoch; /* the last evaluated and the best; 0 = none */
    double val_accuracy, best_accuracy;
    double best_score; /* by --best-by; larger is better */
} ff_run_totals;

typedef struct ff_run_state {
    ff_control control;
    int64_t forwards; /* ff_store's */
    ff_epoch_sums epoch;
    ff_run_totals totals;
} ff_run_state;

/* One JSON object with every number, appended to `text`; doubles have 17 digits, so that reading
 * gives the same bits. */
FF_MUST_USE ff_status ff_run_state_write(const ff_run_state *state, ff_buffer *text,
                                         ff_error *error);
/* FF_BAD_DATA naming the first number that is missing or out of its type's range. */
FF_MUST_USE ff_status ff_run_state_read(ff_run_state *state, const char *text, ff_error *error);

#endif
