/* A device that is not there: memory is counted instead of allocated, nothing is copied and nothing
 * runs. For planning a run without the card it is meant for, or without taking its memory: what is
 * counted is what the same calls take of a device that is there. Touching its memory from the host
 * is a fault, as on a card. */
#ifndef FF_LOADER_DEVICE_ABSENT_H
#define FF_LOADER_DEVICE_ABSENT_H

#include "loader/device/device.h"

/* memory_bytes: of the whole card, as its `memory` tells; more than that is counted, too. unified:
 * it stands for the host. Thread rule: one thread. */
FF_MUST_USE ff_status ff_device_absent_create(ff_device **device, uint64_t memory_bytes,
                                              bool unified, ff_error *error);

/* Whether it is one: its memory is neither written nor read, and nobody fills its batches. */
bool ff_device_is_absent(const ff_device *device);

/* The most bytes that were taken at a time, of its own memory and of pinned memory of the host. */
typedef struct ff_absent_bytes {
    uint64_t device, pinned;
} ff_absent_bytes;
ff_absent_bytes ff_device_absent_most(const ff_device *device);

#endif
