/* An absent device: memory is counted instead of allocated, nothing is copied and nothing runs. For
 * planning a run without its GPU, or without using the GPU's memory: the same calls would allocate
 * the counted bytes on a real device. Access to its memory from the host faults, as with a GPU. */
#ifndef FF_LOADER_DEVICE_ABSENT_H
#define FF_LOADER_DEVICE_ABSENT_H

#include "loader/device/device.h"

/* memory_bytes: of the whole device, as returned by `memory`; more than that can be counted.
 * unified: the device represents the host. Thread rule: one thread. */
FF_MUST_USE ff_status ff_device_absent_create(ff_device **device, uint64_t memory_bytes,
                                              bool unified, ff_error *error);

/* Whether `device` is an absent device: its memory is neither written nor read, and its batches are
 * never filled. */
bool ff_device_is_absent(const ff_device *device);

/* The peaks of allocated device memory and of pinned host memory, in bytes. */
typedef struct ff_absent_bytes {
    uint64_t device, pinned;
} ff_absent_bytes;
ff_absent_bytes ff_device_absent_most(const ff_device *device);

#endif
