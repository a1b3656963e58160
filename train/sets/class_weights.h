/* --class-weights: a factor of the training loss for each class, like the weight of torch's
 * CrossEntropyLoss. */
#ifndef FF_TRAIN_CLASS_WEIGHTS_H
#define FF_TRAIN_CLASS_WEIGHTS_H

#include "train/sets/splits.h"

/* given: "balanced" = n / (classes * n of the class) over the labelled samples that are trained on
 * (as in scikit-learn); or a file with a line `CLASS,WEIGHT` for each class, CLASS its name or
 * number, WEIGHT a number from 0 on; empty lines and lines that begin with # are skipped. NULL:
 * *weights = NULL. The caller frees *weights, [splits->classes]. FF_USAGE naming file and line, or
 * the class that lacks samples or a weight; FF_IO. */
FF_MUST_USE ff_status ff_class_weights_read(float **weights, const ff_splits *splits,
                                            const char *given, ff_error *error);

#endif
