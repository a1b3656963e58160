/* Blurs a plane by one direction after the other, which takes 2 * size multiplications for a pixel
 * in place of size * size but rounds otherwise than blur.h's sum. Pixels whose mean is so close to
 * a half that this may change the integer are few; their sum is computed as blur.h has it. */
#include "loader/augment/change/blur.h"

#include "format/base/compiler.h"

#include <stdbool.h>
#include <string.h>

/* Columns that are blurred together; rows that are added together; sums that are computed together.
 */
enum { STRIP = 256, FOUR = 4, WIDE = STRIP + FF_BLUR_MOST + FOUR, TOGETHER = 8 };

typedef struct blur {
    const uint8_t *plane;
    uint8_t *to;
    uint32_t height, width, size;
    float kernel[FF_BLUR_MOST];
    float normal[FF_BLUR_MOST +
                 FOUR]; /* without weights that slow processors down and change nothing */
    float apart;        /* the most by which the two ways to sum differ */
    uint32_t unsure, x[TOGETHER], y[TOGETHER]; /* pixels to be summed again */
} blur;

/* `count` columns of the row, from column x - size / 2 on. */
FF_FMA_CLONES static void load(float *restrict to, const uint8_t *restrict row, uint32_t width,
                               int32_t first, uint32_t count) {
    uint32_t i = 0;
    for (; i < count && first + (int32_t)i < 0; i++)
        to[i] = (float)row[ff_blur_reflect(first + (int32_t)i, width)];
    const int64_t inside = (int64_t)width - first < count ? (int64_t)width - first : count;
    for (int64_t k = i; k < inside; k++) to[k] = (float)row[first + k];
    for (int64_t k = inside; k < count; k++)
        to[k] = (float)row[ff_blur_reflect(first + (int32_t)k, width)];
}

/* Adds four rows, each with its weight, one after the other. */
FF_FMA_CLONES static void add_rows(float *restrict sum, const float *const rows[4],
                                   const float weight[4], size_t count) {
    const float *restrict a = rows[0], *restrict b = rows[1];
    const float *restrict c = rows[2], *restrict d = rows[3];
    const float w[4] = {weight[0], weight[1], weight[2], weight[3]};
    for (size_t i = 0; i < count; i++)
        sum[i] = fmaf(d[i], w[3], fmaf(c[i], w[2], fmaf(b[i], w[1], fmaf(a[i], w[0], sum[i]))));
}

/* The sum of b->size rows; after the last come some of weight 0. */
static void sum_rows(const blur *b, float *restrict sum, const float *const *rows, size_t count) {
    memset(sum, 0, count * sizeof *sum);
    for (uint32_t k = 0; k < b->size; k += FOUR) add_rows(sum, rows + k, b->normal + k, count);
}

/* Rounds sums, which are from 0 to less than 255.5, and finds which are unsure; whether any is. */
FF_FMA_CLONES static bool round_sums(uint8_t *restrict to, uint8_t *restrict unsure,
                                     const float *restrict sum, float limit, size_t count) {
    uint8_t any = 0;
    for (size_t i = 0; i < count; i++) {
        const float nearest = ff_change_round(sum[i]);
        to[i] = (uint8_t)(int32_t)nearest;
        unsure[i] = fabsf(sum[i] - nearest) > limit;
        any |= unsure[i];
    }
    return any;
}

/* The unsure pixels, as blur.h has them. */
FF_FMA_CLONES static void settle(blur *b) {
    float sum[TOGETHER] = {0}, line[FF_BLUR_MOST][TOGETHER];
    const int32_t size = (int32_t)b->size, half = size / 2;
    for (int32_t k = 0; k < size; k++) {
        for (int32_t i = 0; i < TOGETHER; i++) {
            const uint32_t y = ff_blur_reflect((int32_t)b->y[i] + k - half, b->height);
            float row[FF_BLUR_MOST];
            load(row, b->plane + (size_t)y * b->width, b->width, (int32_t)b->x[i] - half, b->size);
            for (int32_t j = 0; j < size; j++) line[j][i] = row[j];
        }
        for (int32_t j = 0; j < size; j++) {
            const float weight = b->kernel[k] * b->kernel[j];
            for (int32_t i = 0; i < TOGETHER; i++) sum[i] = fmaf(line[j][i], weight, sum[i]);
        }
    }
    for (uint32_t i = 0; i < b->unsure; i++)
        b->to[(size_t)b->y[i] * b->width + b->x[i]] = ff_change_nearest(sum[i]);
    b->unsure = 0;
}

static void note(blur *b, const uint8_t *unsure, uint32_t count, uint32_t x, uint32_t y) {
    for (uint32_t i = 0; i < count; i++) {
        if (!unsure[i]) continue;
        b->x[b->unsure] = x + i, b->y[b->unsure] = y;
        if (++b->unsure == TOGETHER) settle(b);
    }
}

/* Columns x to x + count. The sums of row t - size / 2 of the plane are in slot t % size. */
static void blur_strip(blur *b, uint32_t x, uint32_t count) {
    float values[WIDE] = {0}, sums[FF_BLUR_MOST][STRIP], sum[STRIP];
    const float *rows[FF_BLUR_MOST + FOUR], *columns[FF_BLUR_MOST + FOUR];
    uint8_t unsure[STRIP];
    const int32_t half = (int32_t)b->size / 2;
    for (uint32_t k = 0; k < b->size + FOUR; k++) columns[k] = values + k, rows[k] = sums[0];
    for (uint32_t t = 0; t < b->height + b->size - 1; t++) {
        const uint32_t line = ff_blur_reflect((int32_t)t - half, b->height), slot = t % b->size;
        load(values, b->plane + (size_t)line * b->width, b->width, (int32_t)x - half,
             count + b->size - 1);
        sum_rows(b, sums[slot], columns, count);
        if (t + 1 < b->size) continue;
        const uint32_t y = t + 1 - b->size;
        for (uint32_t k = 0; k < b->size; k++)
            rows[k] = sums[slot + 1 + k < b->size ? slot + 1 + k : slot + 1 + k - b->size];
        sum_rows(b, sum, rows, count);
        if (round_sums(b->to + (size_t)y * b->width + x, unsure, sum, 0.5f - b->apart, count))
            note(b, unsure, count, x, y);
    }
}

/* An addition rounds by at most 2^-24 of its sum, which is at most 255 times the weights so far,
 * and by no more than it adds. */
static float most_apart(const blur *b) {
    float weights = 0, roundings = (float)(b->size + 3) * 0x1p-24f;
    for (uint32_t k = 0; k < b->size * b->size; k++) {
        const float weight = b->kernel[k / b->size] * b->kernel[k % b->size];
        weights += weight;
        roundings += fminf(weight, weights * 0x1p-24f);
    }
    return 255 * 1.01f * roundings;
}

void ff_blur_plane(const ff_change *change, const uint8_t *plane, uint8_t *to, uint32_t height,
                   uint32_t width) {
    blur b = {.plane = plane, .to = to, .height = height, .width = width};
    b.size = (uint32_t)change->value[0];
    ff_blur_kernel(b.kernel, b.size, change->value[1]);
    for (uint32_t k = 0; k < b.size; k++) b.normal[k] = b.kernel[k] < 1e-30f ? 0 : b.kernel[k];
    b.apart = most_apart(&b);
    for (uint32_t x = 0; x < width; x += STRIP)
        blur_strip(&b, x, width - x < STRIP ? width - x : STRIP);
    if (b.unsure) settle(&b);
}
