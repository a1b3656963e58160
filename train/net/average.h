/* The average of a store's parameters and running statistics over the updates of a run, with
 * exponentially decreasing weights. After each update average = decay * average + (1 - decay) *
 * value, as in timm's ModelEmaV2. A skipped update does not count.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_AVERAGE_H
#define FF_TRAIN_AVERAGE_H

#include "train/net/store.h"

/* Allocates the average; call it before updates of the store are made. On failure the store stays
 * as it was. */
FF_MUST_USE ff_status ff_average_reserve(ff_store *store, ff_error *error);
/* Enqueues the start of the average: a copy of the values. Failure sticks in the compute. */
void ff_average_begin(ff_store *store);
/* Exchanges values and average, for evaluation. Call it again before the next step to exchange them
 * back. */
void ff_average_swap(ff_store *store);

#endif
