#include "loader/augment/affine.h"

#include <math.h>

/* How many floats above and below the best ones are tried. */
#define STEPS 6

static float step(float value, int steps) {
    for (; steps > 0; steps--) value = nextafterf(value, INFINITY);
    for (; steps < 0; steps++) value = nextafterf(value, -INFINITY);
    return value;
}

/* table: [256] of f16 or bf16. */
static bool equal(const uint16_t *table, ff_dtype dtype, float scale, float bias) {
    for (int value = 0; value < 256; value++) {
        float result = fmaf((float)value, scale, bias);
        uint16_t bits;
        ff_convert(&bits, dtype, &result, FF_F32, 1);
        if (bits != table[value]) return false;
    }
    return true;
}

static bool find_channel(const uint16_t *table, ff_dtype dtype, double mean, double std,
                         float *scale, float *bias) {
    float best_scale = (float)(1 / (255 * std)), best_bias = (float)(-mean / std);
    /* Nearest first: 0, 1, -1, 2, -2 ... */
    for (int i = 0; i <= 2 * STEPS; i++) {
        for (int j = 0; j <= 2 * STEPS; j++) {
            *scale = step(best_scale, i % 2 ? (i + 1) / 2 : -i / 2);
            *bias = step(best_bias, j % 2 ? (j + 1) / 2 : -j / 2);
            if (equal(table, dtype, *scale, *bias)) return true;
        }
    }
    return false;
}

bool ff_affine_find(const ff_augment_host *host, const ff_metadata *metadata, float *scale,
                    float *bias) {
    if (!host->table || host->to_bytes != 2) return false;
    for (uint32_t channel = 0; channel < host->channels; channel++) {
        const uint16_t *table = (const uint16_t *)host->table + channel * 256;
        bool given = metadata->statistics_count != 0;
        double mean = given ? (double)metadata->mean[channel] : 0;
        double std = given ? (double)metadata->std[channel] : 1;
        if (!find_channel(table, host->to, mean, std, &scale[channel], &bias[channel]))
            return false;
    }
    return true;
}
