/* Room train/evaluate, floor 10: what a model is worth on a set.
 *
 * This header computes the logits of every sample once and counts them in a tally: loss, accuracy,
 * classes, confusion, the worst samples (tally.c), alone or over all ranks. inference.c opens a
 * set and a file of weights as training would, for the commands that evaluate and predict.
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
    double accuracy; /* share of them classified correctly, in [0, 1] */
    int64_t count;   /* labelled samples */
    uint64_t ns;     /* duration */
} ff_evaluation;

/* One pass over the feed's set: the feed is endless, keeps the last batch, and returns batches of
 * the plan's size; rows after the last sample have weight 0. `tally`, of this plan, or NULL: begins
 * and counts every sample; its numbers are those of the set where the feed's order is sequential.
 * All batches are enqueued before the first outcome is read. FF_BAD_DATA where no sample is
 * labelled; FF_INTERRUPTED; the feed's errors. Of a job each rank's feed has an equal part of every
 * batch; the result, and the tally, are of all, and a signal to any interrupts all. */
FF_MUST_USE ff_status ff_evaluate(ff_plan *plan, ff_feed *feed, ff_tally *tally, ff_job *job,
                                  ff_evaluation *result, ff_error *error);

#endif
