/* fftrain --diagnose: how fast each stage is alone, and which one a run would wait for; on a GPU
 * also the operations that exceed their estimated time the most. */
#ifndef FF_TRAIN_DIAGNOSE_H
#define FF_TRAIN_DIAGNOSE_H

#include "train/trainer/trainer.h"

#include <stdio.h>

/* Measures for a few seconds; prints a line per stage and the conclusion. The trainer cannot be
 * used afterwards. */
FF_MUST_USE ff_status ff_diagnose(ff_trainer *trainer, FILE *out, ff_error *error);

#endif
