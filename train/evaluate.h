/* Loss and accuracy of a model over a whole set, each sample counted exactly once. */
#ifndef FF_TRAIN_EVALUATE_H
#define FF_TRAIN_EVALUATE_H

#include "train/feed.h"
#include "train/model.h"

typedef struct ff_evaluation {
    double loss;     /* mean cross-entropy over the labelled samples */
    double accuracy; /* their share that was classified right, in [0, 1] */
    int64_t count;   /* labelled samples */
    uint64_t ns;     /* it took */
} ff_evaluation;

/* One pass over the feed's set: the feed has no end, keeps the last batch, and gives batches of the
 * plan's size; rows after the last sample have weight 0 and count nothing. All batches are given
 * to the device before the first is looked at. FF_BAD_DATA where no sample is labelled;
 * FF_INTERRUPTED; the feed's errors. */
FF_MUST_USE ff_status ff_evaluate(ff_plan *plan, ff_feed *feed, ff_evaluation *result,
                                  ff_error *error);

#endif
