/* The average of a store's parameters and running statistics over the updates of a run, with
 * exponentially decreasing weights: after each update average = decay * average + (1 - decay) *
 * value, as timm's ModelEmaV2. An update that is skipped does not count.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_AVERAGE_H
#define FF_TRAIN_AVERAGE_H

#include "train/net/store.h"

/* Allocates the average, before updates of the store are made; on failure the store keeps what it
 * has. */
FF_MUST_USE ff_status ff_average_reserve(ff_store *store, ff_error *error);
/* Enqueues its beginning: a copy of the values. Failure sticks in the compute. */
void ff_average_begin(ff_store *store);
/* Exchanges values and average, for evaluation; again to exchange them back before the next step.
 */
void ff_average_swap(ff_store *store);

#endif
