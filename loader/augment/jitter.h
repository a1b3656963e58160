/* Colour jitter: brightness, contrast, saturation and hue of an image with values in [0, 1], each
 * changed by a random factor, in random order; parameters and their effect on a pixel as pure
 * functions, one source for host (C11) and CUDA C.
 *
 * Source: torchvision's ColorJitter and its functions on float tensors (version 0.14,
 * transforms/functional_tensor.py: adjust_brightness, _contrast, _saturation, _hue), in f32, each
 * operation rounded once and in the order there. Only the mean for contrast differs: grey values
 * are truncated to multiples of 2^-30 and summed as integers, so the order of the sum does not
 * matter (torch's depends on the processor; they agree within 2^-22). As in torchvision, images of
 * one channel ignore saturation and hue. NaN becomes 0.
 *
 * Draws: a, b = blocks FF_BLOCK_JITTER, FF_BLOCK_JITTER_ORDER of (seed, FF_DOMAIN_AUGMENT, epoch,
 * sample):
 *   factor k = low + (high - low) a[k] 2^-32, in doubles, rounded to f32; for brightness, contrast
 *   and saturation by x, low = max(0, 1 - x) and high = 1 + x; for hue by x, low = -x and high = x
 *   order: permutation number ff_random_below(b[0], 24), in lexical order, of the four; unused
 *   ones are left out.
 * Golden values are in tests/unit/test_loader_mix.c. Thread rule: everything here is pure. */
#ifndef FF_LOADER_AUGMENT_JITTER_H
#define FF_LOADER_AUGMENT_JITTER_H

#include "loader/sequence/philox.h"

#include <math.h>

enum { FF_JITTER_BRIGHTNESS, FF_JITTER_CONTRAST, FF_JITTER_SATURATION, FF_JITTER_HUE };

/* The most pixels of an image, so that sums of grey values and counts fit. */
#define FF_COLOUR_PIXELS_LIMIT (UINT64_C(1) << 31)

typedef struct ff_jitter {
    float factor[4];
    uint32_t count;   /* changes, in their order: */
    uint8_t order[4]; /* FF_JITTER_... */
} ff_jitter;

/* amount: of brightness, contrast, saturation and hue; 0 = unchanged. */
FF_HD ff_jitter ff_jitter_at(const double amount[4], uint64_t seed, uint32_t epoch,
                             uint64_t sample) {
    ff_random a = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_JITTER);
    ff_random b = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_JITTER_ORDER);
    uint32_t number = ff_random_below(b.word[0], 24), left = 0x3210, permutations = 6;
    ff_jitter jitter;
    jitter.count = 0;
    for (uint32_t k = 0; k < 4; k++) {
        double low = k == FF_JITTER_HUE ? -amount[k] : amount[k] < 1 ? 1 - amount[k] : 0;
        double high = k == FF_JITTER_HUE ? amount[k] : 1 + amount[k];
        jitter.factor[k] = (float)(low + (high - low) * (a.word[k] * 0x1p-32));
        jitter.order[k] = 0;
    }
    for (uint32_t k = 0; k < 4; k++) {
        /* Picks the next of the remaining ones, four bits each. */
        uint32_t at = 4 * (number / permutations), which = left >> at & 15;
        left = (left & ((1u << at) - 1)) | left >> (at + 4) << at;
        number %= permutations;
        if (k < 2) permutations /= 3 - k;
        if (amount[which] > 0) jitter.order[jitter.count++] = (uint8_t)which;
    }
    return jitter;
}

FF_HD float ff_jitter_clamp(float value) {
    return value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f;
}

/* factor * value + (1 - factor) * other, clamped to [0, 1]. */ FF_HD float
ff_jitter_blend(float value, float other, float factor) {
    return ff_jitter_clamp(factor * value + (1.0f - factor) * other);
}

FF_HD float ff_jitter_grey(float r, float g, float b) {
    return 0.2989f * r + 0.587f * g + 0.114f * b;
}

/* A grey value in [0, 1] in fixed point for summing, and the mean of a sum over `pixels`. */
FF_HD int32_t ff_jitter_fixed(float grey) {
    return (int32_t)(grey * 1073741824.0f);
}
FF_HD float ff_jitter_mean(uint64_t sum, uint64_t pixels) {
    return (float)((double)sum / (double)pixels * 0x1p-30);
}

/* Adds `factor` of a turn to the hue of (r, g, b): through HSV and back. */
FF_HD void ff_jitter_hue(float *r, float *g, float *b, float factor) {
    const float red = *r, green = *g, blue = *b;
    const float high_rg = red > green ? red : green, low_rg = red > green ? green : red;
    const float value = high_rg > blue ? high_rg : blue, low = low_rg > blue ? blue : low_rg;
    const float spread = value - low, divisor = spread == 0.0f ? 1.0f : spread;
    const float s = spread / (spread == 0.0f ? 1.0f : value);
    const float rc = (value - red) / divisor, gc = (value - green) / divisor;
    const float bc = (value - blue) / divisor;
    const float h6 = value == red ? bc - gc : value == green ? 2.0f + rc - bc : 4.0f + gc - rc;
    /* Into [0, 1): exact, as the subtrahend is at most twice as large. */
    float h = h6 / 6.0f + 1.0f;
    h = h >= 1.0f ? h - 1.0f : h;
    h = h + factor;
    h = h >= 1.0f ? h - 1.0f : h < 0.0f ? h + 1.0f : h;
    const float sector = (float)(int32_t)(h * 6.0f), f = h * 6.0f - sector;
    const float p = ff_jitter_clamp(value * (1.0f - s));
    const float q = ff_jitter_clamp(value * (1.0f - s * f));
    const float t = ff_jitter_clamp(value * (1.0f - s * (1.0f - f)));
    const int32_t i = (int32_t)sector; /* 0 to 6, which is 0 again */
    *r = i == 1 ? q : i == 2 || i == 3 ? p : i == 4 ? t : value;
    *g = i == 1 || i == 2 ? value : i == 3 ? q : i == 4 || i == 5 ? p : t;
    *b = i == 2 ? t : i == 3 || i == 4 ? value : i == 5 ? q : p;
}

#ifndef __CUDACC__
#include <stddef.h>

/* Changes an image in place: 1 or 3 planes of `pixels` values in [0, 1]. At most
 * FF_COLOUR_PIXELS_LIMIT pixels. */
void ff_jitter_apply(const ff_jitter *jitter, float *image, uint32_t channels, size_t pixels);
#endif

#endif
