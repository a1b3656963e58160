/* --normalize: the mean and std that people use with PyTorch for known data sets. */
#ifndef FF_FFPACK_NORMALIZE_H
#define FF_FFPACK_NORMALIZE_H

#include "tools/ffpack/settings/settings.h"

/* The words of --normalize, in the order of the table. */
#define FF_NORMALIZE_CHOICES "imagenet|cifar10|cifar100|mnist|fashion-mnist|half"

/* Sets the settings' mean, std and their origin by the number of the word. */
FF_MUST_USE ff_status ff_normalize_take(ff_settings *settings, int word, ff_error *error);

#endif
