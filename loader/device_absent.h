/* A device that is not there: memory is counted and refused as the card's would be, nothing is
 * copied and nothing runs. For planning a run without the card it is meant for. Touching its memory
 * from the host is a fault, as on a card. */
#ifndef FF_LOADER_DEVICE_ABSENT_H
#define FF_LOADER_DEVICE_ABSENT_H

#include "loader/device.h"

/* memory_bytes: of the whole card. Thread rule: one thread. */
FF_MUST_USE ff_status ff_device_absent_create(ff_device **device, uint64_t memory_bytes,
                                              ff_error *error);

#endif
