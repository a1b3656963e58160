/* fftrain --overfit: whether a net can overfit a few fixed batches. Every net can if net, loss and
 * optimizer are right. */
#ifndef FF_TRAIN_DEBUG_OVERFIT_H
#define FF_TRAIN_DEBUG_OVERFIT_H

#include "train/trainer/trainer.h"

#include <stdio.h>

/* The mean loss below which a net has overfitted: a probability of 99 % for the right class, and
 * with bce for the answers of all classes together. */
#define FF_OVERFIT_LOSS 0.01

/* Trains a trainer made with options.overfit on its first batches, over and over, for
 * options.epochs passes, or else at least 1000 steps and 100 passes; prints lines to `out`.
 * FF_FAILED if the loss does not fall below FF_OVERFIT_LOSS. The trainer cannot be used
 * afterwards. */
FF_MUST_USE ff_status ff_overfit(ff_trainer *trainer, FILE *out, ff_error *error);

#endif
