/* fftrain --check-gradients: whether the backward pass computes the derivatives of the loss that
 * the forward pass computes. */
#ifndef FF_TRAIN_DEBUG_GRADIENTS_H
#define FF_TRAIN_DEBUG_GRADIENTS_H

#include "train/trainer/trainer.h"

#include <stdio.h>

/* A relative error above this is a wrong gradient. */
#define FF_GRADIENT_ERROR 0.05

/* On the first batch, with f32. For each trained parameter p of gradient g, in random directions r
 * of elements 1 and -1: |(L(p + h r) - L(p - h r)) / 2h - <g, r>| / max(|g|, the quotient), the
 * largest of two directions; h changes the loss by a part in 10,000 where the parameter's size
 * allows, so that neither rounding nor curvature counts; where the error is large, the least of
 * three h. Prints a line for each parameter, with how much of the error the loss's rounding may be;
 * an error is judged without that. FF_FAILED where one is wrong; FF_USAGE for other
 * precisions. The trainer cannot be used afterwards. */
FF_MUST_USE ff_status ff_check_gradients(ff_trainer *trainer, FILE *out, ff_error *error);

#endif
