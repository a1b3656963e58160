/* --dp-balance auto: each rank's share of every batch, according to its speed and memory. */
#ifndef FF_TRAIN_BALANCE_H
#define FF_TRAIN_BALANCE_H

#include "train/trainer/trainer.h"

/* Each rank takes some steps of an equal share, all ranks at the same time, and counts how much
 * fits into its memory. Every rank calls it while the job's shares are equal. Every rank gets the
 * same rows[job->size] of a micro-batch. *text: a clause with what was measured; the caller frees
 * it. FF_NO_MEMORY if no shares fit. */
FF_MUST_USE ff_status ff_balance_measure(const ff_trainer_options *options, int64_t *rows,
                                         char **text, ff_error *error);

#endif
