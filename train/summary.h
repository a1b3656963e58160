/* A trainer as text: printed by --dry-run and at the start of every run. */
#ifndef FF_TRAIN_SUMMARY_H
#define FF_TRAIN_SUMMARY_H

#include "train/trainer.h"

#include <stdio.h>

/* Model, shapes, parameters, multiply-accumulates, memory by role, sets, batches, learning rates
 * and every choice that the recipe made. */
void ff_summary_print(FILE *out, const ff_trainer *trainer);

/* The number of trained values. */
uint64_t ff_summary_parameters(const ff_model *model);

#endif
