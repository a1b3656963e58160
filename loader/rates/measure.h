/* How fast a disk reads what a loader needs, measured with the loader's own requests. Private to
 * loader/. */
#ifndef FF_LOADER_AHEAD_MEASURE_H
#define FF_LOADER_AHEAD_MEASURE_H

#include "loader/host/settings.h"
#include "loader/rates/rates.h"

/* Reads the first epoch of settings->sequence with the requests of a loader, for about budget_ns or
 * until the epoch ends, and drops the bytes: of a slow disk few, of a fast one up to 64 MiB at a
 * time. Allocates these beside the plan of a stage. Needs settings->ahead.bytes above 0. FF_IO
 * where a request fails. Thread rule: any thread; the dataset may be in use. */
FF_MUST_USE ff_status ff_ahead_measure(const ff_loader_settings *settings, uint64_t budget_ns,
                                       ff_disk_rate *rate, ff_error *error);

#endif
