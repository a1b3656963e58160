/* Early stopping: a run ends after `patience` evaluations in a row that were not better than the
 * best one before them. What is better, ff_evaluation_score says (keeping.h); an evaluation without
 * a score is not. The run counts these evaluations in its state (totals.waited), which a checkpoint
 * keeps, so that a resumed run stops where an uninterrupted one does.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_PATIENCE_H
#define FF_TRAIN_PATIENCE_H

#include "train/checkpoint/keeper.h"

enum { FF_PATIENCE_BYTES = 160, FF_PATIENCE_ENDED_BYTES = 320 };

/* Whether the run stops after the evaluation that it has just made; patience 0: never. */
bool ff_patience_over(const ff_run_state *state, int64_t patience);

/* Why, as in "3 evaluations in a row had no better accuracy than the 62.50 % after epoch 2". */
void ff_patience_say(const ff_run_totals *totals, char text[FF_PATIENCE_BYTES]);

/* Before a run goes on: where it chooses its checkpoints by another measure than before, or
 * evaluates with other views, the best evaluation is that of the keeper's best checkpoint (NULL:
 * none), and the count begins again. */
void ff_patience_resume(ff_run_totals *totals, const ff_keeper *keeper, ff_best_by by,
                        uint32_t views);
/* What is said of a run that is resumed after its end: all its steps are done, or it stopped
 * early; and with which options it goes on. */
void ff_patience_say_ended(const ff_run_totals *totals, bool all_done, uint32_t epochs,
                           char text[FF_PATIENCE_ENDED_BYTES]);

#endif
