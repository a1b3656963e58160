/* fftrain --diagnose: how fast each stage is alone, and which one a run would wait for; on a GPU
 * also the operations that are furthest from what the card should take for them. */
#ifndef FF_TRAIN_DIAGNOSE_H
#define FF_TRAIN_DIAGNOSE_H

#include "train/trainer.h"

#include <stdio.h>

/* Measures for a few seconds and prints a line a stage and the sentence. Uses the trainer up. */
FF_MUST_USE ff_status ff_diagnose(ff_trainer *trainer, FILE *out, ff_error *error);

#endif
