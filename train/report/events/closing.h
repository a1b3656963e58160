/* The sentences that close a run. One thread at a time. */
#ifndef FF_TRAIN_CLOSING_H
#define FF_TRAIN_CLOSING_H

#include "train/report/report.h"

/* Call for a run that did not fail. `all` false: prints only the result, one line; a warning goes
 * to stderr. */
void ff_closing_print(FILE *out, bool all, const ff_trainer *trainer, const ff_run_result *result,
                      ff_status status);

/* Seconds of whitening, training and the last evaluation, after the warm-up. */
double ff_closing_timed_seconds(const ff_run_result *result);

#endif
