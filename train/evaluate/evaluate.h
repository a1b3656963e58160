/* Room train/evaluate, floor 13: how good a model is on a set.
 *
 * This header computes the logits of every sample once and counts them in a tally (tally.c): loss,
 * accuracy, classes, confusion, the worst samples. It does so in one process or over all ranks.
 * inference.c opens a set and a file of weights as training would, for the commands that evaluate
 * and predict.
 *
 * May include format, train/checkpoint, train/comm/job, train/compute, train/machine, train/net,
 * train/sets, train/step.
 *
 * Loss and accuracy of a model over a whole set, each sample counted exactly once. */
#ifndef FF_TRAIN_EVALUATE_H
#define FF_TRAIN_EVALUATE_H

#include "train/evaluate/tally.h"
#include "train/net/model.h"
#include "train/step/feed.h"

typedef struct ff_evaluation {
    double loss;     /* mean cross-entropy over the labelled samples */
    double accuracy; /* share of these samples classified correctly, in [0, 1] */
    int64_t count;   /* labelled samples */
    uint64_t ns;     /* duration */
} ff_evaluation;

/* Makes one pass over the feed's set. The feed is endless, keeps the last batch, and returns
 * batches of the plan's size; rows after the last sample have weight 0. `tally`, made for this
 * plan, begins anew and counts every sample; NULL: no tally. The tally numbers samples as the set
 * does if the feed's order is sequential. All batches are enqueued before the first outcome is
 * read. In a job, each rank's feed has an equal part of every batch, the result and the tally cover
 * all ranks, and a signal to any rank interrupts all. FF_BAD_DATA if no sample is labelled;
 * FF_INTERRUPTED; the feed's errors. */
FF_MUST_USE ff_status ff_evaluate(ff_plan *plan, ff_feed *feed, ff_tally *tally, ff_job *job,
                                  ff_evaluation *result, ff_error *error);

#endif
