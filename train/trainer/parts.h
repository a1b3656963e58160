/* The parts of a trainer: the model, its plans, the feeds and the step. Private to the trainer. */
#ifndef FF_TRAIN_TRAINER_PARTS_H
#define FF_TRAIN_TRAINER_PARTS_H

#include "train/trainer/trainer.h"

/* Builds the parts of a resolved trainer, and fills its needs. FF_NO_MEMORY, before anything is
 * allocated, if memory does not suffice. On failure the parts built so far are dropped with the
 * trainer. */
FF_MUST_USE ff_status ff_trainer_build_parts(ff_trainer *trainer, ff_error *error);
void ff_trainer_drop_parts(ff_trainer *trainer);

#endif
