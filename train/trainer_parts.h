/* What a trainer works with: the model, its plans, the feeds and the step. Private to the trainer.
 */
#ifndef FF_TRAIN_TRAINER_PARTS_H
#define FF_TRAIN_TRAINER_PARTS_H

#include "train/trainer.h"

/* Builds them for a trainer that is resolved, and fills its needs. FF_NO_MEMORY, before any is
 * taken, where memory does not suffice. What was built on failure is dropped with the
 * trainer. */
FF_MUST_USE ff_status ff_trainer_build_parts(ff_trainer *trainer, ff_error *error);
void ff_trainer_drop_parts(ff_trainer *trainer);

#endif
