/* The outcomes of steps, in device memory, copied to the host from time to time. The ring has three
 * parts: steps write to one, one is being copied, and the caller reads one.
 *
 * Thread rule: the step's thread. */
#ifndef FF_TRAIN_OUTCOME_RING_H
#define FF_TRAIN_OUTCOME_RING_H

#include "train/compute/compute.h"

enum { FF_RING_PARTS = 3 };

typedef struct ff_outcome_ring {
    ff_compute *compute;
    ff_outcome *entries; /* [FF_RING_PARTS * send_steps], on the device */
    ff_outcome *pinned;  /* its copy */
    ff_event *copied[FF_RING_PARTS];
    uint32_t send_steps;
    /* The number of the next step to enqueue, of the next outcome to copy to the host, and of the
     * next outcome to return to the caller: delivered <= sent <= enqueued. */
    uint64_t enqueued, sent, delivered;
} ff_outcome_ring;

/* For the steps from `first`. The caller destroys the ring, after a failure too. */
FF_MUST_USE ff_status ff_outcome_ring_create(ff_outcome_ring *ring, ff_compute *compute,
                                             uint32_t send_steps, uint64_t first, ff_error *error);
void ff_outcome_ring_destroy(ff_outcome_ring *ring);
void ff_outcome_ring_restart(ff_outcome_ring *ring, uint64_t first);

static inline uint32_t ff_outcome_ring_size(const ff_outcome_ring *ring) {
    return FF_RING_PARTS * ring->send_steps;
}
/* The entry of the next step. */
static inline ff_outcome *ff_outcome_ring_next(const ff_outcome_ring *ring) {
    return ring->entries + ring->enqueued % ff_outcome_ring_size(ring);
}

/* Before a step: the host waits if the ring has no place for another step. */
FF_MUST_USE ff_status ff_outcome_ring_await(ff_outcome_ring *ring, ff_error *error);
/* After a step is enqueued. */
FF_MUST_USE ff_status ff_outcome_ring_advance(ff_outcome_ring *ring, ff_error *error);
/* As ff_step_outcomes. */
FF_MUST_USE ff_status ff_outcome_ring_take(ff_outcome_ring *ring, bool wait,
                                           const ff_outcome **outcomes, uint32_t *count,
                                           ff_error *error);

#endif
