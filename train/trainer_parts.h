/* What a recipe runs with: the model, its plans, the feeds and the step. Private to the recipe. */
#ifndef FF_TRAIN_RECIPE_PARTS_H
#define FF_TRAIN_RECIPE_PARTS_H

#include "train/trainer.h"

/* Builds them for a recipe that is resolved, and fills its needs. FF_NO_MEMORY, before any is
 * taken, where memory does not suffice. What was built on failure is dropped with the
 * recipe. */
FF_MUST_USE ff_status ff_recipe_build_parts(ff_recipe *recipe, ff_error *error);
void ff_recipe_drop_parts(ff_recipe *recipe);

#endif
