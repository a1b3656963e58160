/* fftrain --diagnose: how fast each stage is alone, and which one a run would wait for. */
#ifndef FF_TRAIN_DIAGNOSE_H
#define FF_TRAIN_DIAGNOSE_H

#include "train/recipe.h"

#include <stdio.h>

/* Measures for a few seconds and prints a line a stage and the sentence. Uses the recipe up. */
FF_MUST_USE ff_status ff_diagnose(ff_recipe *recipe, FILE *out, ff_error *error);

#endif
