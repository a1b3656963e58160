#include "loader/augment/jitter.h"

#include "format/base/compiler.h"

/* Loops that compilers vectorize, one change at a time. */

FF_CLONES static void scale(float *value, size_t count, float factor) {
    for (size_t i = 0; i < count; i++) value[i] = ff_jitter_clamp(factor * value[i]);
}

FF_CLONES static void blend_all(float *value, size_t count, float other, float factor) {
    for (size_t i = 0; i < count; i++) value[i] = ff_jitter_blend(value[i], other, factor);
}

FF_CLONES static uint64_t sum_values(const float *value, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += (uint32_t)ff_jitter_fixed(value[i]);
    return sum;
}

FF_CLONES static uint64_t sum_grey(const float *restrict r, const float *restrict g,
                                   const float *restrict b, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (uint32_t)ff_jitter_fixed(ff_jitter_grey(r[i], g[i], b[i]));
    return sum;
}

FF_CLONES static void saturate(float *restrict r, float *restrict g, float *restrict b,
                               size_t count, float factor) {
    for (size_t i = 0; i < count; i++) {
        const float grey = ff_jitter_grey(r[i], g[i], b[i]);
        r[i] = ff_jitter_blend(r[i], grey, factor);
        g[i] = ff_jitter_blend(g[i], grey, factor);
        b[i] = ff_jitter_blend(b[i], grey, factor);
    }
}

FF_CLONES static void turn_hue(float *restrict r, float *restrict g, float *restrict b,
                               size_t count, float factor) {
    for (size_t i = 0; i < count; i++) ff_jitter_hue(&r[i], &g[i], &b[i], factor);
}

void ff_jitter_apply(const ff_jitter *jitter, float *image, uint32_t channels, size_t pixels) {
    float *r = image, *g = image + pixels, *b = image + 2 * pixels;
    for (uint32_t k = 0; k < jitter->count; k++) {
        const float factor = jitter->factor[jitter->order[k]];
        switch (jitter->order[k]) {
        case FF_JITTER_BRIGHTNESS: scale(image, channels * pixels, factor); break;
        case FF_JITTER_CONTRAST: {
            uint64_t sum = channels == 3 ? sum_grey(r, g, b, pixels) : sum_values(image, pixels);
            blend_all(image, channels * pixels, ff_jitter_mean(sum, pixels), factor);
            break;
        }
        case FF_JITTER_SATURATION:
            if (channels == 3) saturate(r, g, b, pixels, factor);
            break;
        default:
            if (channels == 3) turn_hue(r, g, b, pixels, factor);
        }
    }
}
