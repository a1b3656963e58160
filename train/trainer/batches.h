/* The part of a trainer that decides how batches are cut into micro-batches and shared by the
 * ranks. */
#ifndef FF_TRAIN_TRAINER_BATCHES_H
#define FF_TRAIN_TRAINER_BATCHES_H

#include "train/trainer/trainer.h"

/* Fills the trainer's fields about batches, from `batch` to `batches`, once its sets and
 * augmentation are known. FF_USAGE if a batch cannot be cut or shared as the options require. */
FF_MUST_USE ff_status ff_trainer_resolve_batches(ff_trainer *trainer,
                                                 const ff_trainer_options *options,
                                                 const ff_recipe *recipe, ff_error *error);

#endif
