/* Changes of an image of u8: what each does to a value or a pixel, one source for host (C11) and
 * CUDA C. Which changes a sample gets: loader/augment/change/draw.h.
 *
 * Source: torchvision's transforms/v2/functional on u8 tensors (version 0.29: _color.py,
 * _geometry.py), with the same value in every pixel as on a CPU with fused multiply-adds, where
 * torch computes a + b * c with one rounding. Values between 0 and 255 are then truncated to u8.
 *   posterize    keeps the highest `bits` bits
 *   solarize     255 - v where v >= threshold
 *   invert       255 - v
 *   brightness   v * factor
 *   equalize     by the histogram of each channel, as Pillow's ImageOps.equalize
 *   autocontrast (v - low) / ((high - low) / 255) by the extremes of each channel
 *   contrast     blends v with the mean of the grey values
 *   color        blends a pixel with its grey value (saturation)
 *   grayscale    the grey value, 0.2989 r + 0.587 g + 0.114 b, in all channels
 *   sharpness    blends v with the rounded mean of 3 x 3 values of which the middle counts five
 *                times; the outermost pixels stay, as do images of less than 3 pixels a side
 *   blur         a weighted mean of the values around v (loader/augment/change/blur.h)
 *   affine       the value at the place that a matrix names: the nearest, or from the four around
 *                it; those outside are black
 *   mix, chain, mixed
 *                a sum of images of f32: mix begins with the image times a weight; the changes up
 *                to each chain apply to that same image, and their result times a weight is added;
 *                mixed truncates the sum. Products and sums are rounded one by one
 * Blending by `factor` is factor * v + (1 - factor) * other. Images of one channel ignore color and
 * grayscale. The mean of contrast is summed exactly; torch's, in f32, is the same for up to 65,793
 * pixels. Thread rule: everything here is pure. */
#ifndef FF_LOADER_AUGMENT_CHANGE_CHANGE_H
#define FF_LOADER_AUGMENT_CHANGE_CHANGE_H

#include "loader/sequence/philox.h"

#include <math.h>

typedef enum ff_change_kind {
    /* Tables of 256 values, one for each channel. */
    FF_CHANGE_POSTERIZE,
    FF_CHANGE_SOLARIZE,
    FF_CHANGE_INVERT,
    FF_CHANGE_BRIGHTNESS,
    FF_CHANGE_EQUALIZE,
    FF_CHANGE_AUTOCONTRAST,
    FF_CHANGE_CONTRAST,
    FF_CHANGE_TABLES, /* how many these are */
    /* Changes that need whole pixels, or several. */
    FF_CHANGE_COLOR = FF_CHANGE_TABLES,
    FF_CHANGE_GRAYSCALE,
    FF_CHANGE_SHARPNESS,
    FF_CHANGE_NEAREST,  /* affine */
    FF_CHANGE_BILINEAR, /* affine, interpolated */
    FF_CHANGE_BLUR,
    /* Changes of the sum of a mixture. */
    FF_CHANGE_MIX,
    FF_CHANGE_CHAIN,
    FF_CHANGE_MIXED,
} ff_change_kind;

/* A change with its parameters. */
typedef struct ff_change {
    uint32_t kind; /* ff_change_kind */
    /* posterize: the bits; solarize: the threshold; brightness, contrast, color, sharpness: the
     * factor, and 1 - factor, each rounded from f64; affine: the matrix (change/matrix.h); blur:
     * the kernel's size and sigma; mix, chain: the weight. */
    float value[6];
} ff_change;

/* The changes of an image, in their order. */
#define FF_CHANGES_MOST 84
typedef struct ff_changes {
    uint32_t count;
    ff_change change[FF_CHANGES_MOST];
} ff_changes;

/* Adds a change that has one number: a factor, bits, or a threshold. */
FF_HD void ff_changes_add(ff_changes *changes, ff_change_kind kind, double value) {
    ff_change *change = &changes->change[changes->count++];
    change->kind = kind;
    change->value[0] = (float)value;
    change->value[1] = (float)(1.0 - value);
    for (int k = 2; k < 6; k++) change->value[k] = 0;
}

/* Rounds to the nearest integer, halves to the even one; |value| <= 2^22, and larger ones stay far
 * from smaller. */
FF_HD float ff_change_round(float value) {
    return (value + 12582912.0f) - 12582912.0f;
}

/* Into 0 to 255. */
FF_HD float ff_change_clamp(float value) {
    value = value > 0.0f ? value : 0.0f;
    return value < 255.0f ? value : 255.0f;
}
/* Truncated; |value| < 2^31. Integers are compared, for which vectors need no masks. */
FF_HD uint8_t ff_change_u8(float value) {
    int32_t whole = (int32_t)value;
    whole = whole > 0 ? whole : 0;
    return (uint8_t)(whole < 255 ? whole : 255);
}
/* The nearest one. */
FF_HD uint8_t ff_change_nearest(float value) {
    return (uint8_t)(int32_t)ff_change_round(ff_change_clamp(value));
}

/* factor * value + (1 - factor) * other. */
FF_HD uint8_t ff_change_blend(const float factor[2], float value, float other) {
    return ff_change_u8(fmaf(other, factor[1], value * factor[0]));
}

/* Truncated. */
FF_HD uint8_t ff_change_grey(uint8_t r, uint8_t g, uint8_t b) {
    return (uint8_t)(int32_t)fmaf((float)b, 0.114f, fmaf((float)g, 0.587f, (float)r * 0.2989f));
}

/* sharpness: the mean of nine values with this sum, of which the middle counts five times: sum /
 * 13, rounded; it is never halfway. */
FF_HD uint16_t ff_change_smooth(uint16_t nine, uint8_t middle) {
    return (uint16_t)((uint16_t)(2 * (nine + 4 * middle) + 13) / 26);
}
FF_HD uint8_t ff_change_sharpen(const float factor[2], uint8_t value, uint16_t smooth) {
    return ff_change_u8(fmaf((float)(int32_t)(smooth - value), factor[1], (float)value));
}

/* ---- tables --------------------------------------------------------------------------------- */

/* An entry of the table of posterize, solarize, invert, brightness or contrast; mean: for contrast.
 */
FF_HD uint8_t ff_change_entry(const ff_change *change, float mean, uint8_t value) {
    switch (change->kind) {
    case FF_CHANGE_POSTERIZE: return (uint8_t)(value & ~(255u >> (uint32_t)change->value[0]));
    case FF_CHANGE_SOLARIZE:
        return (float)value >= change->value[0] ? (uint8_t)(255 - value) : value;
    case FF_CHANGE_INVERT: return (uint8_t)(255 - value);
    case FF_CHANGE_BRIGHTNESS: return ff_change_u8((float)value * change->value[0]);
    default: return ff_change_blend(change->value, (float)value, mean);
    }
}

/* The mean of grey values with this sum. */
FF_HD float ff_change_mean(uint64_t sum, uint64_t pixels) {
    return (float)sum / (float)pixels;
}

/* The table of a channel with these counts of values: autocontrast's. */
FF_HD void ff_change_stretch(const uint32_t count[256], uint8_t table[256]) {
    uint32_t low = 0, high = 255;
    while (low < 255 && !count[low]) low++;
    while (high > low && !count[high]) high--;
    const float width = (float)(high - low) * (1.0f / 255.0f);
    for (uint32_t v = 0; v < 256; v++)
        table[v] =
            high == low ? (uint8_t)v : ff_change_u8(((float)(int32_t)v - (float)low) / width);
}

/* Equalize's; values that do not occur may have any entry. */
FF_HD void ff_change_equalize(const uint32_t count[256], uint32_t pixels, uint8_t table[256]) {
    uint32_t last = 255;
    while (last > 0 && !count[last]) last--;
    const uint32_t step = (pixels - count[last]) / 255;
    uint32_t below = step / 2;
    for (uint32_t v = 0; v < 256; v++) {
        const uint32_t shown = step ? below / step : v;
        table[v] = (uint8_t)(shown < 255 ? shown : 255);
        below += count[v];
    }
}

#endif
