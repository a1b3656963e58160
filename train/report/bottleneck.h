/* Explains what limits the speed of a run. Pure. */
#ifndef FF_TRAIN_BOTTLENECK_H
#define FF_TRAIN_BOTTLENECK_H

#include "loader/rates/rates.h"
#include "train/report/report.h"

/* Writes one sentence to `text`: whether the steps waited for data or the data for the steps, by
 * how much, and what to change. */
void ff_bottleneck_text(const ff_trainer *trainer, const ff_run_result *result, char *text,
                        size_t size);

/* The same for stages measured alone (samples a second): which is the slowest, how much faster the
 * next one is, and what to change. */
void ff_bottleneck_of_rates(const ff_trainer *trainer, const ff_rates *rates, double compute_rate,
                            char *text, size_t size);

#endif
