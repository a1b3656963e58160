/* Converts stored tensors back to pictures. */
#ifndef FF_LOADER_DRAW_PICTURE_H
#define FF_LOADER_DRAW_PICTURE_H

#include "format/reader/reader.h"

/* byte = value * gain[c] + offset[c], rounded and clamped. The first three channels are shown as
 * red, green and blue; with fewer than three channels, the first one is shown as grey. */
typedef struct ff_picture_scale {
    double gain[3], offset[3];
    const char *sentence; /* how the scale was chosen */
} ff_picture_scale;

/* Chooses how values of this dataset become bytes: denormalized if Normalize was applied; else
 * unscaled if the values fit 0..1 or 0..255; else stretched from `minimum` to `maximum`, the range
 * of the pictures to be shown. */
ff_picture_scale ff_picture_choose_scale(const ff_metadata *metadata, double minimum,
                                         double maximum);

/* Widens [*minimum, *maximum] by the finite values of the channels that are shown. */
void ff_picture_range(const ff_metadata *metadata, const void *tensor, uint32_t height,
                      uint32_t width, double *minimum, double *maximum);

/* rgb: [height, width, 3] u8. NaN becomes magenta, so that it is visible. */
void ff_picture_convert(const ff_metadata *metadata, const ff_picture_scale *scale,
                        const void *tensor, uint32_t height, uint32_t width, uint8_t *rgb);

#endif
