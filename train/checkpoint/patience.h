/* Early stopping: a run ends after `patience` evaluations in a row that were not better than the
 * best one before them. What is better, ff_evaluation_score says (keeping.h); an evaluation without
 * a score is not. The run counts these evaluations in its state (totals.waited), which a checkpoint
 * keeps, so that a resumed run stops where an uninterrupted one does.
 *
 * Pure functions. */
#ifndef FF_TRAIN_PATIENCE_H
#define FF_TRAIN_PATIENCE_H

#include "train/checkpoint/keeping.h"

enum { FF_PATIENCE_BYTES = 160 };

/* Whether the run stops after the evaluation that it has just made; patience 0: never. */
bool ff_patience_over(const ff_run_state *state, int64_t patience);

/* Why, as in "3 evaluations in a row had no better accuracy than the 62.50 % after epoch 2". */
void ff_patience_say(const ff_run_totals *totals, char text[FF_PATIENCE_BYTES]);

#endif
