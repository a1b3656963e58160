/* Measures how fast a disk reads what a loader needs, with the loader's own requests. Private to
 * loader/. */
#ifndef FF_LOADER_AHEAD_MEASURE_H
#define FF_LOADER_AHEAD_MEASURE_H

#include "loader/host/settings.h"
#include "loader/rates/rates.h"

/* Reads the first epoch of settings->sequence with the requests of a loader, for about budget_ns or
 * until the epoch ends, and drops the bytes: few bytes at a time from a slow disk, up to 64 MiB
 * from a fast one. Allocates memory for these bytes in addition to the plan of a stage. Needs
 * settings->ahead.bytes above 0. FF_IO if a request fails. Thread rule: any thread; the dataset may
 * be in use. */
FF_MUST_USE ff_status ff_ahead_measure(const ff_loader_settings *settings, uint64_t budget_ns,
                                       ff_disk_rate *rate, ff_error *error);

#endif
