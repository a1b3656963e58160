/* The parts of a training step: segments, each a sequence of work enqueued together. With graph
 * capture a segment is captured when it runs for the second time, and replayed from then on.
 * Without capture the same calls are made in every step, with the same bits.
 *
 * Thread rule: the step's thread. */
#ifndef FF_TRAIN_SEGMENTS_H
#define FF_TRAIN_SEGMENTS_H

#include "train/comm/collective/comm.h"
#include "train/compute/compute.h"
#include "train/net/model.h"

typedef struct ff_segment_kind {
    /* Enqueues the segment's calls, also during capture, so it must only enqueue. `timed`: includes
     * the event for timing. */
    ff_status (*enqueue)(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                         ff_error *error);
    bool of_plan; /* each plan has a segment of its own; else all plans share one */
    bool timed;   /* it has two graphs: without and with the timing event */
} ff_segment_kind;

/* A call of a communicator, or several. */
typedef struct ff_collective {
    ff_status (*make)(void *context, const struct ff_collective *call, ff_error *error);
    ff_comm *comm;
    ff_plan *plan; /* passed to `make` */
    const void *from;
    void *to;
    uint64_t bytes;
} ff_collective;

typedef struct ff_segment ff_segment;

/* Initialise the fields before `note`; the rest is zero. */
typedef struct ff_segments {
    ff_compute *compute;
    const ff_segment_kind *kinds;
    void *context; /* of the functions */
    bool record;   /* capture graphs; becomes false if a capture fails: `note` has the reason */
    bool called;   /* make the calls for now, even if graphs exist */
    /* Replaces *captured, whether this rank has captured a segment, by whether all ranks have. All
     * ranks call it at the same segment. NULL: this rank decides alone. */
    ff_status (*agree)(void *context, bool *captured, ff_error *error);
    char note[2304];
    ff_segment *list;
    struct ff_pieces *capturing; /* what is being captured; NULL = nothing */
} ff_segments;

/* Enqueues a segment. The batch must be at the same address at every call with this plan. A failed
 * capture is not an error: from then on the calls are made instead. */
FF_MUST_USE ff_status ff_segments_run(ff_segments *segments, int kind, ff_plan *plan,
                                      const ff_batch *batch, bool timed, ff_error *error);
/* For `enqueue`: makes the call. If the communicator's calls are not in graphs (ff_comm.in_graphs),
 * the graph being captured ends here, the rest of the segment becomes another graph, and from then
 * on the call is made between the two. A failure sticks in the compute. */
void ff_segments_collective(ff_segments *segments, ff_collective call);
/* Whether the segment may be timed now. It may not in the run that captures it, because the device
 * waits for the capture. */
bool ff_segments_timeable(const ff_segments *segments, int kind, const ff_plan *plan);
/* Call after the enqueued work is done. */
void ff_segments_destroy(ff_segments *segments);

#endif
