/* What a run needs in order to resume, in addition to its model's values and its optimizer's state:
 * a copy of everything that changes while it trains. Plain data; pure functions. */
#ifndef FF_TRAIN_RUN_STATE_H
#define FF_TRAIN_RUN_STATE_H

#include "format/base/memory.h"
#include "train/compute/control.h"

/* Sums over the steps of the epoch so far. */
typedef struct ff_epoch_sums {
    double loss_sum;
    int64_t count, correct;
    uint64_t skipped;           /* updates */
    double loss_scale;          /* of the last step */
    uint64_t samples;           /* with and without labels */
    uint64_t train_ns, wait_ns; /* in this epoch, before the run was resumed */
} ff_epoch_sums;

/* The result of an evaluation. */
typedef struct ff_evaluated {
    uint32_t epoch; /* the epoch after which it was made, from 1; 0 = no evaluation */
    uint32_t views; /* per sample */
    double loss;    /* may be NaN or infinite */
    double accuracy;
} ff_evaluated;

/* Totals over the run. */
typedef struct ff_run_totals {
    uint64_t steps, samples;
    uint64_t skipped; /* updates */
    uint64_t train_ns, wait_ns;
    uint64_t val_ns, last_val_ns; /* all evaluations, and the last one */
    uint64_t val_step;            /* the steps done when `val` was made */
    ff_evaluated val, best;       /* the last one, and the best one so far by `best_by` */
    uint32_t best_by;             /* ff_best_by (keeping.h) */
    uint32_t waited;              /* evaluations since `best`, or since the metric changed */
} ff_run_totals;

typedef struct ff_run_state {
    ff_control control;
    int64_t forwards; /* of the store (ff_store) */
    ff_epoch_sums epoch;
    ff_run_totals totals;
} ff_run_state;

/* The evaluation of the current weights; epoch 0 if they were not evaluated. */
ff_evaluated ff_run_state_evaluation(const ff_run_state *state);

/* Appends one JSON object to `text`, with every number except those that are 0 between steps
 * (control.halted and control.part); doubles have 17 digits, so that reading
 * returns the same bits. */
FF_MUST_USE ff_status ff_run_state_write(const ff_run_state *state, ff_buffer *text,
                                         ff_error *error);
/* FF_BAD_DATA naming the first number that is missing or outside its type's range. Numbers that
 * older checkpoints lack become 0. */
FF_MUST_USE ff_status ff_run_state_read(ff_run_state *state, const char *text, ff_error *error);

#endif
