/* The size of training images by epoch (progressive resizing): smaller ones first cost less time.
 */
#ifndef FF_TRAIN_SIZES_H
#define FF_TRAIN_SIZES_H

#include "format/base/status.h"

#include <stdint.h>

enum { FF_SIZES = 32 };

/* From epoch[i] (from 0) on the short side has side[i] pixels. Epochs rise. */
typedef struct ff_sizes {
    int count;
    uint32_t epoch[FF_SIZES], side[FF_SIZES];
} ff_sizes;

/* Parses "EPOCH:SIZE,..." and "BEGIN-END:SIZE": epochs after which the side is SIZE, or goes there
 * linearly in multiples of 32 pixels (of 4 below 128), as FFCV's recipes do. Before the first one
 * it is `whole`. NULL: always `whole`. FF_USAGE. */
FF_MUST_USE ff_status ff_sizes_parse(ff_sizes *sizes, const char *text, uint32_t whole,
                                     ff_error *error);

#endif
