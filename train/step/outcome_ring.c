#include "train/step/outcome_ring.h"

#include <assert.h>

ff_status ff_outcome_ring_create(ff_outcome_ring *ring, ff_compute *compute, uint32_t send_steps,
                                 uint64_t first, ff_error *error) {
    const char *what = "the outcomes of steps";
    ff_device *device = compute->device;
    void *pinned;
    *ring = (ff_outcome_ring){.compute = compute, .send_steps = send_steps};
    ff_outcome_ring_restart(ring, first);
    const uint64_t bytes = ff_outcome_ring_size(ring) * sizeof(ff_outcome);
    FF_TRY(ff_compute_allocate(compute, &ring->entries, bytes, what, error));
    FF_TRY(device->table->allocate_pinned(device, &pinned, bytes, what, error));
    ring->pinned = pinned;
    for (int i = 0; i < FF_RING_PARTS; i++)
        FF_TRY(device->table->event_create(device, &ring->copied[i], false, error));
    return FF_OK;
}

void ff_outcome_ring_destroy(ff_outcome_ring *ring) {
    if (!ring->compute) return;
    ff_device *device = ring->compute->device;
    for (int i = 0; i < FF_RING_PARTS; i++) device->table->event_destroy(device, ring->copied[i]);
    if (ring->entries) ff_compute_release(ring->compute, ring->entries);
    if (ring->pinned) device->table->release_pinned(device, ring->pinned);
}

void ff_outcome_ring_restart(ff_outcome_ring *ring, uint64_t first) {
    ring->enqueued = ring->sent = ring->delivered = first;
}

static ff_event *copied(const ff_outcome_ring *ring, uint64_t number) {
    return ring->copied[number / ring->send_steps % FF_RING_PARTS];
}

/* Copies the remaining outcomes to the host. They lie in one part of the ring, because each part is
 * sent when it is full. */
static ff_status send(ff_outcome_ring *ring, ff_error *error) {
    ff_device *device = ring->compute->device;
    ff_stream *stream = ring->compute->stream;
    const uint64_t at = ring->sent % ff_outcome_ring_size(ring);
    const uint64_t bytes = (ring->enqueued - ring->sent) * sizeof(ff_outcome);
    FF_TRY(
        device->table->copy(device, stream, ring->pinned + at, ring->entries + at, bytes, error));
    FF_TRY(device->table->event_record(device, copied(ring, ring->sent), stream, error));
    ring->sent = ring->enqueued;
    return FF_OK;
}

ff_status ff_outcome_ring_take(ff_outcome_ring *ring, bool wait, const ff_outcome **outcomes,
                               uint32_t *count, ff_error *error) {
    ff_device *device = ring->compute->device;
    ff_event *arrived = copied(ring, ring->delivered);
    *outcomes = NULL;
    *count = 0;
    FF_TRY(ff_compute_check(ring->compute, error));
    if (wait && ring->sent < ring->enqueued) FF_TRY(send(ring, error));
    if (ring->delivered == ring->sent) return FF_OK;
    if (!wait && !device->table->event_done(device, arrived)) return FF_OK;
    FF_TRY(device->table->event_synchronize(device, arrived, error));
    const uint64_t at = ring->delivered % ff_outcome_ring_size(ring);
    const uint64_t left = ring->send_steps - at % ring->send_steps;
    const uint64_t there = ring->sent - ring->delivered;
    *count = (uint32_t)(there < left ? there : left);
    *outcomes = ring->pinned + at;
    ring->delivered += *count;
    return FF_OK;
}

ff_status ff_outcome_ring_await(ff_outcome_ring *ring, ff_error *error) {
    ff_device *device = ring->compute->device;
    const uint64_t ahead = ring->enqueued - ring->delivered;
    const uint64_t most = (FF_RING_PARTS - 1) * (uint64_t)ring->send_steps;
    assert(ahead <= most);
    if (ahead < most) return FF_OK;
    return device->table->event_synchronize(device, copied(ring, ring->delivered), error);
}

ff_status ff_outcome_ring_advance(ff_outcome_ring *ring, ff_error *error) {
    ring->enqueued++;
    return ring->enqueued % ring->send_steps == 0 ? send(ring, error) : FF_OK;
}
