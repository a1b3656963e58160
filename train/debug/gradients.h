/* fftrain --check-gradients: whether the backward pass computes the derivatives of the loss that
 * the forward pass computes. */
#ifndef FF_TRAIN_DEBUG_GRADIENTS_H
#define FF_TRAIN_DEBUG_GRADIENTS_H

#include "train/trainer/trainer.h"

#include <stdio.h>

/* A relative error above this is a wrong gradient. */
#define FF_GRADIENT_ERROR 0.05

/* Checks the first batch, in f32. For each trained parameter p with gradient g, the error in a
 * random direction r of elements 1 and -1 is |(L(p + h r) - L(p - h r)) / 2h - <g, r>| / max(|g|,
 * the quotient). The larger error of two directions counts. h changes the loss by a part in 10,000,
 * if the parameter's size allows, so that neither rounding nor curvature matters; if the error is
 * large, the least error of three h counts. Prints a line for each parameter, with the part of the
 * error that may be the loss's rounding; the error is judged without this part. FF_FAILED if a
 * gradient is wrong; FF_USAGE for other precisions. The trainer cannot be used afterwards. */
FF_MUST_USE ff_status ff_check_gradients(ff_trainer *trainer, FILE *out, ff_error *error);

#endif
