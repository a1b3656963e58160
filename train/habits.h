/* Options of PyTorch's training scripts, and what fftrain has instead. */
#ifndef FF_TRAIN_HABITS_H
#define FF_TRAIN_HABITS_H

#include "format/base/status.h"

/* FF_USAGE at the first argument before "--" that is such an option: names ours, or says "not
 * yet". */
FF_MUST_USE ff_status ff_habits_check(int argc, char **argv, ff_error *error);

#endif
