/* --precision auto: the faster of the precisions in which this CPU computes. */
#ifndef FF_TRAIN_PRECISION_CHOICE_H
#define FF_TRAIN_PRECISION_CHOICE_H

#include "train/trainer/trainer.h"

/* On a CPU takes some steps of the run in f32 and in bf16, and chooses bf16 if its step takes less
 * than 0.95 of the other's time: the sum over all ranks, which get the same choice. On a GPU f16.
 * Every rank calls it. *text: a clause with what was measured, or why nothing was; the caller frees
 * it. */
FF_MUST_USE ff_status ff_precision_choose(const ff_trainer_options *options,
                                          ff_precision *precision, char **text, ff_error *error);

#endif
