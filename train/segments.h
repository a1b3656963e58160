/* What a training step is made of: segments, each a row of work that the device is given at once.
 * Where recordings are wanted, a segment is recorded when it runs for the second time and launched
 * as one from then on; without them the same calls are made step by step, with the same bits.
 *
 * Thread rule: the step's thread. */
#ifndef FF_TRAIN_SEGMENTS_H
#define FF_TRAIN_SEGMENTS_H

#include "train/compute.h"
#include "train/model.h"

/* One kind of segment. */
typedef struct ff_segment_kind {
    /* Gives the stream its calls, also while it is recorded, so it only enqueues. `timed`: with the
     * event that its time is taken by. */
    ff_status (*give)(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                      ff_error *error);
    bool of_plan; /* each plan has its own; else one serves all */
    bool timed;   /* it has two recordings: plain, and the one whose time is taken */
} ff_segment_kind;

typedef struct ff_segment ff_segment;

/* Zeroed but for the first four. */
typedef struct ff_segments {
    ff_compute *compute;
    const ff_segment_kind *kinds;
    void *context; /* of `give` */
    bool record;   /* false again where a recording could not be made: `note` says why */
    char note[2304];
    ff_segment *list;
} ff_segments;

/* Gives the stream a segment. The batch lies at the same place at every call with this plan. A
 * recording that fails is no failure: the calls are made instead, and from then on. */
FF_MUST_USE ff_status ff_segments_run(ff_segments *segments, int kind, ff_plan *plan,
                                      const ff_batch *batch, bool timed, ff_error *error);
/* Whether the segment's time may be taken now: not while it is being recorded, for the device waits
 * for that. */
bool ff_segments_timeable(const ff_segments *segments, int kind, const ff_plan *plan);
/* After the work that was given is done. */
void ff_segments_destroy(ff_segments *segments);

#endif
