/* Applies changes (loader/augment/change/change.h) to an image on the host: loops that compilers
 * vectorize, one change at a time. Changes that are tables are joined into one. Thread rule: pure,
 * except for the images given. */
#ifndef FF_LOADER_AUGMENT_CHANGE_APPLY_H
#define FF_LOADER_AUGMENT_CHANGE_APPLY_H

#include "loader/augment/change/draw.h"

#include <stddef.h>

/* The channels that an image can have: 1 or 3. */
#define FF_CHANGE_CHANNELS 3

/* The bytes that ff_change_apply needs for an image of channels * pixels values: two images, one
 * more for each chain of a mixture, and pixels of four bytes for affine changes. */
static inline size_t ff_change_bytes(const ff_change_spec *spec, uint32_t channels, size_t pixels) {
    const uint32_t images = 2 + (ff_change_mixes(spec) ? spec->augmix.chains : 0);
    return (images * channels + 4) * pixels;
}

/* Applies `changes` to the image [channels][height][width] with which `memory` (ff_change_bytes)
 * begins. Returns the result, which is in `memory`, too. */
uint8_t *ff_change_apply(const ff_changes *changes, uint8_t *memory, uint32_t channels,
                         uint32_t height, uint32_t width);

#endif
