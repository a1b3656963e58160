/* Applies changes (loader/augment/change/change.h) to an image on the host: loops that compilers
 * vectorize, one change at a time. Changes that are tables are joined into one, which the caller
 * applies together with the conversion of values. */
#ifndef FF_LOADER_AUGMENT_CHANGE_APPLY_H
#define FF_LOADER_AUGMENT_CHANGE_APPLY_H

#include "loader/augment/change/matrix.h"

#include <stdbool.h>
#include <stddef.h>

/* The channels that an image can have: 1 or 3. */
#define FF_CHANGE_CHANNELS 3

typedef struct ff_change_image {
    uint8_t *pixels; /* [channels][height][width] */
    uint8_t *spare;  /* as large; changes may exchange the two */
    uint8_t *third;  /* as large, for mixtures; they may exchange the three */
    float *sum;      /* of mixtures: [channels][height][width] */
    uint8_t *begun;  /* NULL; while chains are mixed: the image with which each begins */
    uint32_t channels, height, width;
    /* What is still to be applied: value v of channel c is table[c][v]. */
    uint8_t table[FF_CHANGE_CHANNELS][256];
} ff_change_image;

/* Applies `changes` to an image whose table is not set yet. Uses no other memory; `third` and `sum`
 * only with mixtures. */
void ff_change_apply(const ff_changes *changes, ff_change_image *image);

#endif
