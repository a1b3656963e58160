/* The line that says what a run fetches from behind a URL. */
#ifndef FF_TRAIN_FETCHES_H
#define FF_TRAIN_FETCHES_H

#include "train/trainer/trainer.h"

#include <stdio.h>

/* "cache          12.0 GiB in DIR: the first epoch fetches ..." for a training set behind a URL;
 * else nothing. If the cache cannot have the set, the bytes of a further epoch are counted over the
 * order (loader/host/cache_plan.h), unless that would take seconds or parts of the index are not
 * there; and the loader says if it is too small for the order. */
void ff_fetches_print(FILE *out, const ff_trainer *trainer, const ff_loader_info *loader);

#endif
