/* Early stopping: a run ends after `patience` evaluations in a row that were not better than the
 * best one before them. ff_evaluation_score (keeping.h) decides which evaluation is better; one
 * without a score never is. The run counts these evaluations in its state (totals.waited). A
 * checkpoint stores the count, so that a resumed run stops where an uninterrupted one does.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_PATIENCE_H
#define FF_TRAIN_PATIENCE_H

#include "train/checkpoint/keeper.h"

enum { FF_PATIENCE_BYTES = 160, FF_PATIENCE_ENDED_BYTES = 320 };

/* Whether the run stops after its latest evaluation; patience 0: never. */
bool ff_patience_over(const ff_run_state *state, int64_t patience);

/* Writes why: "3 evaluations in a row had no better accuracy than the 62.50 % after epoch 2". */
void ff_patience_say(const ff_run_totals *totals, char text[FF_PATIENCE_BYTES]);

/* Call before a run resumes. If the run now chooses checkpoints by another metric, or evaluates
 * with another number of views, the best evaluation becomes that of the keeper's best checkpoint
 * (NULL: none), and the count restarts. */
void ff_patience_resume(ff_run_totals *totals, const ff_keeper *keeper, ff_best_by by,
                        uint32_t views);
/* Writes why a run that is resumed after its end does not train: all its steps are done, or it
 * stopped early. Names the options with which the run continues. */
void ff_patience_say_ended(const ff_run_totals *totals, bool all_done, uint32_t epochs,
                           char text[FF_PATIENCE_ENDED_BYTES]);

#endif
