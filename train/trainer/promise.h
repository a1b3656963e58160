/* How fast the disk will be for a run, measured before its first step. */
#ifndef FF_TRAIN_PROMISE_H
#define FF_TRAIN_PROMISE_H

#include "loader/rates/rates.h"

#include <jansson.h>
#include <stdio.h>

typedef struct ff_promise {
    ff_disk_rate rate[FF_ORDER_KIND_COUNT]; /* samples 0 = not measured in this order */
    ff_order_kind order;                    /* of the run */
    uint64_t samples;                       /* of an epoch */
} ff_promise;

/* Measures the disk for a loader with these options that does not read yet: about one second, a few
 * on a slow disk. disks: of the run's hosts, each of which has its own. If a file cannot be read,
 * there is no promise: the run reports the error. Nothing is measured of a set behind a URL: the
 * cache would fetch in another order than the run. */
void ff_promise_measure(ff_promise *promise, ff_dataset *dataset, const ff_loader_options *options,
                        int disks);

/* The rate of the run's order; samples 0 = none. */
const ff_disk_rate *ff_promise_own(const ff_promise *promise);

/* Lines for a summary: each order's rate, the bytes read for each used, the time of an epoch, and
 * which order is recommended. Nothing if nothing was measured. */
void ff_promise_print(FILE *out, const ff_promise *promise);

/* {order: {samples_per_second, read_per_used, epoch_seconds, first_epoch_alone}}; null if nothing
 * was measured. Owned by the caller; NULL if out of memory. */
json_t *ff_promise_json(const ff_promise *promise);

/* A clause with advice against a slow disk. */
typedef struct ff_promise_advice {
    char text[160];
} ff_promise_advice;
ff_promise_advice ff_promise_advise(const ff_promise *promise);

/* Writes a sentence to `text` and returns true if the steps, which alone process step_rate samples
 * a second, will spend more than a fifth of their time waiting for the disk. */
bool ff_promise_warns(const ff_promise *promise, double step_rate, char *text, size_t size);

#endif
