/* Applies changes (loader/augment/change/change.h) to an image on the host: loops that compilers
 * vectorize, one change at a time. Changes that are tables are joined into one. Thread rule: pure,
 * except for the images given. */
#ifndef FF_LOADER_AUGMENT_CHANGE_APPLY_H
#define FF_LOADER_AUGMENT_CHANGE_APPLY_H

#include "loader/augment/change/draw.h"

/* The channels that an image can have: 1 or 3. */
#define FF_CHANGE_CHANNELS 3

/* The images that ff_change_apply needs for the changes of a spec: two, and one for each chain of a
 * mixture. */
static inline uint32_t ff_change_host_images(const ff_change_spec *spec) {
    return 2 + (ff_change_mixes(spec) ? spec->augmix.chains : 0);
}

/* Applies `changes` to the first image of `images`, [ff_change_host_images()][channels][height]
 * [width], all of which are overwritten. Returns the one that is the result. */
uint8_t *ff_change_apply(const ff_changes *changes, uint8_t *images, uint32_t channels,
                         uint32_t height, uint32_t width);

#endif
