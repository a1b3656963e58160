/* What a model gets right and wrong, sample by sample: counted on the host from the logits of an
 * evaluation, which are copied from a device while it computes the next batches. */
#ifndef FF_TRAIN_TALLY_H
#define FF_TRAIN_TALLY_H

#include "train/comm/job/job.h"
#include "train/compute/compute.h"
#include "train/net/model.h"

enum {
    FF_TALLY_WORST = 36,
    FF_TALLY_TOP = 5,       /* of top-5 accuracy */
    FF_TALLY_MATRIX = 1024, /* the most classes of a confusion matrix */
};

/* A sample with a large loss. */
typedef struct ff_mistake {
    uint64_t sample; /* its number in the set */
    int32_t label, predicted;
    double loss;        /* without label smoothing; infinite where a logit is NaN */
    double probability; /* of the predicted class */
} ff_mistake;

/* Of the labelled samples of one pass. Read-only for its users. */
typedef struct ff_tally {
    int classes;
    bool whole; /* the pass came to its end */
    int64_t count, correct;
    int64_t top;                          /* whose label is among the FF_TALLY_TOP largest logits */
    int64_t *class_count, *class_correct; /* [classes], by label */
    uint32_t
        *confusion; /* [classes][classes]: label, then prediction; NULL beyond FF_TALLY_MATRIX */
    ff_mistake worst[FF_TALLY_WORST]; /* of the largest losses; the largest first */
    int worst_count;
    struct ff_tally_parts *parts; /* tally.c's own */
} ff_tally;

/* For a plan's logits; the plan must outlive it. FF_NO_MEMORY and the device's errors; on failure
 * *tally = NULL. */
FF_MUST_USE ff_status ff_tally_create(ff_tally **tally, const ff_plan *plan, ff_error *error);
/* NULL is accepted. Call it when no work is enqueued. */
void ff_tally_destroy(ff_tally **tally);

/* The share of the samples whose label is among the FF_TALLY_TOP largest logits; -1 where there are
 * no more classes than that. */
static inline double ff_tally_top(const ff_tally *tally) {
    return tally->classes > FF_TALLY_TOP ? (double)tally->top / (double)tally->count : -1;
}

/* For evaluate.c, in a pass over a set in the order of its samples' numbers. */

/* A new pass: everything is 0. Of several ranks each has an equal part of every batch. */
void ff_tally_begin(ff_tally *tally, int rank, int ranks);
/* Counts the batch that was enqueued last, or an earlier one: then this one is copied from the
 * device, and counted later. Labels outside [0, classes) are not counted. */
FF_MUST_USE ff_status ff_tally_add(ff_tally *tally, const ff_batch *batch, uint32_t count,
                                   ff_error *error);
/* Counts what is left. */
FF_MUST_USE ff_status ff_tally_end(ff_tally *tally, ff_error *error);
/* After the end: the counts of all ranks. */
FF_MUST_USE ff_status ff_tally_join(ff_tally *tally, ff_job *job, ff_error *error);

#endif
