/* The size of training images by epoch (progressive resizing): smaller images at first cost less
 * time. */
#ifndef FF_TRAIN_SIZES_H
#define FF_TRAIN_SIZES_H

#include "format/base/status.h"

#include <stdint.h>

enum { FF_SIZES = 32 };

/* From epoch[i] (from 0) on the short side has side[i] pixels, by increasing epoch. */
typedef struct ff_sizes {
    int count;
    uint32_t epoch[FF_SIZES], side[FF_SIZES];
} ff_sizes;

/* Parses "EPOCH:SIZE,..." and "BEGIN-END:SIZE". After EPOCH epochs the side is SIZE; from BEGIN to
 * END it changes to SIZE linearly, in multiples of 32 pixels (of 4 below 128), as in FFCV's
 * recipes. Before the first epoch listed, the side is `whole`. NULL: always `whole`. FF_USAGE. */
FF_MUST_USE ff_status ff_sizes_parse(ff_sizes *sizes, const char *text, uint32_t whole,
                                     ff_error *error);

#endif
