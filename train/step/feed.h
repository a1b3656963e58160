/* The batches of a run: on the CPU the slots of a loader, otherwise batches made by the device's
 * kernels (loader/gpu/batches.h). One thread at a time. */
#ifndef FF_TRAIN_FEED_H
#define FF_TRAIN_FEED_H

#include "loader/gpu/batches.h"
#include "loader/rates/rates.h"
#include "train/compute/compute.h"
#include "train/net/model.h"

typedef struct ff_feed ff_feed;

typedef struct ff_feed_options {
    ff_loader_options loader; /* dtype, layout and device are set by the feed */
    ff_compute *compute;      /* uses the batches; must outlive the feed */
    /* For devices other than the host; NULL: a planned one, whose loader is not used. */
    const struct ff_loader_kernels *kernels;
    ff_placement placement;
    bool quiet; /* no progress line of an upload */
} ff_feed_options;

/* The loader of an evaluation: every sample once, in the set's order, resized to `resize` (short
 * side; 0 = not resized) and cut to the model's input. `label` must outlive the feed; NULL: no
 * label is needed. */
ff_loader_options ff_feed_in_order(const ff_model *model, const char *const *label, uint64_t batch,
                                   uint32_t resize);

/* The loader's and the batches' errors. On failure *feed = NULL. */
FF_MUST_USE ff_status ff_feed_create(ff_feed **feed, ff_dataset *dataset,
                                     const ff_feed_options *options, ff_error *error);
/* Waits for the device. NULL is accepted. */
void ff_feed_destroy(ff_feed **feed);

typedef struct ff_feed_batch {
    ff_batch batch; /* in the compute's memory */
    uint32_t count; /* samples, from the front */
    bool last;      /* last batch of its epoch */
} ff_feed_batch;

/* Starts the next batch. Its content is ready, in the compute's stream, after ff_feed_make. Call
 * ff_feed_done after all work on it is enqueued. */
FF_MUST_USE ff_status ff_feed_next(ff_feed *feed, ff_feed_batch *batch, ff_error *error);
/* Enqueues the kernels that make the batch; may be captured. `feed` is an ff_feed: ff_step's
 * make_batch. */
FF_MUST_USE ff_status ff_feed_make(void *feed, ff_stream *stream, ff_error *error);
FF_MUST_USE ff_status ff_feed_done(ff_feed *feed, ff_error *error);
/* Replaces ff_feed_make and ff_feed_done for a batch that is not used. */
FF_MUST_USE ff_status ff_feed_skip(ff_feed *feed, ff_error *error);
/* As ff_batches_set_size, if the batches are made on a device. */
void ff_feed_set_size(ff_feed *feed, int size);
/* Replaces ff_feed_done when the work on the batch is done: the next ff_feed_next and ff_feed_make
 * return the same batch again. */
FF_MUST_USE ff_status ff_feed_again(ff_feed *feed, ff_error *error);

typedef struct ff_feed_info {
    ff_loader_info loader;
    uint64_t device_bytes, pinned_bytes; /* for a device that is not the host */
    const char *placement;               /* one sentence; NULL if a loader feeds the CPU */
    bool resident;                       /* the set is on the device */
} ff_feed_info;
/* The state at creation or at the last ff_feed_take_note. */
ff_feed_info ff_feed_describe(const ff_feed *feed);
/* Measures the stages that make the feed's batches (loader/rates/rates.h); call it before the first
 * batch. */
FF_MUST_USE ff_status ff_feed_rates(ff_feed *feed, ff_dataset *dataset, uint64_t budget_ns,
                                    ff_rates *rates, ff_error *error);
/* How samples are read, if that has changed since the last call; else NULL. */
const char *ff_feed_take_note(ff_feed *feed);
/* Since creation. */
ff_loader_stats ff_feed_measure(ff_feed *feed);

/* [batches_per_epoch] in the compute's memory: the outcomes of evaluation. */
ff_outcome *ff_feed_outcomes(const ff_feed *feed);
ff_compute *ff_feed_compute(const ff_feed *feed);

#endif
