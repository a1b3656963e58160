/* Counts what a model gets right and wrong, sample by sample. The host counts from the logits of an
 * evaluation, which are copied from the device while it computes the next batches. */
#ifndef FF_TRAIN_TALLY_H
#define FF_TRAIN_TALLY_H

#include "format/reader/reader.h"
#include "train/comm/job/job.h"
#include "train/compute/compute.h"
#include "train/net/model.h"

enum {
    FF_TALLY_WORST = 36,
    FF_TALLY_TOP = 5,       /* for top-5 accuracy */
    FF_TALLY_MATRIX = 1024, /* the most classes with a confusion matrix */
};

/* A sample with a large loss. */
typedef struct ff_mistake {
    uint64_t sample; /* its number in the set */
    int32_t label, predicted;
    double loss;        /* without label smoothing; infinite if a logit is NaN */
    double probability; /* of the predicted class */
} ff_mistake;

/* Counts of the labelled samples of one pass. Read-only for users. */
typedef struct ff_tally {
    int classes;
    bool whole; /* the pass reached its end */
    int64_t count, correct;
    int64_t top; /* samples whose label is among the FF_TALLY_TOP largest logits */
    int64_t *class_count, *class_correct; /* [classes], by label */
    uint32_t
        *confusion; /* [classes][classes]: label, then prediction; NULL beyond FF_TALLY_MATRIX */
    ff_mistake worst[FF_TALLY_WORST]; /* the largest losses, by falling loss */
    /* The sample at each position of the pass, set by the owner; zeroed = the position. */
    ff_storage_order numbers;
    int worst_count;
    struct ff_tally_parts *parts; /* private to tally.c */
} ff_tally;

/* A tally for a plan's logits; the plan must outlive it. FF_NO_MEMORY and the device's errors; on
 * failure *tally = NULL. */
FF_MUST_USE ff_status ff_tally_create(ff_tally **tally, const ff_plan *plan, ff_error *error);
/* NULL is accepted. Call it when no work is enqueued. */
void ff_tally_destroy(ff_tally **tally);

/* The share of the samples whose label is among the FF_TALLY_TOP largest logits; -1 if there are at
 * most FF_TALLY_TOP classes. */
static inline double ff_tally_top(const ff_tally *tally) {
    return tally->classes > FF_TALLY_TOP ? (double)tally->top / (double)tally->count : -1;
}

/* For evaluate.c, in a pass over a set in the order of its samples' numbers. */

/* Begins a pass: all counts are 0. Each of several ranks has an equal part of every batch. */
void ff_tally_begin(ff_tally *tally, int rank, int ranks);
/* Counts the batch that was enqueued last. On a device, starts to copy this batch and counts an
 * earlier one meanwhile. Labels outside [0, classes) are not counted. */
FF_MUST_USE ff_status ff_tally_add(ff_tally *tally, const ff_batch *batch, uint32_t count,
                                   ff_error *error);
/* Counts the batches that are still in flight. */
FF_MUST_USE ff_status ff_tally_end(ff_tally *tally, ff_error *error);
/* Call after the end: sums the counts over all ranks. */
FF_MUST_USE ff_status ff_tally_join(ff_tally *tally, ff_job *job, ff_error *error);

#endif
