/* Affine changes on the host. A row's source pixels are found in loops that compilers vectorize,
 * and loaded one by one: two neighbours at a time, where all four pixels around a place are inside.
 */
#include "loader/augment/change/matrix.h"

#include "format/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Pixels of a row at a time, in blocks: whole blocks are computed, also of pixels that are not
 * used. */
enum { SOME = 256, BLOCK = 32, ROOM = SOME + BLOCK };

typedef struct job {
    const ff_change *change;
    const uint8_t *from;
    uint8_t *to;
    uint32_t channels, height, width;
    uint32_t x, y, count;           /* the output's pixels (x, y) to (x + count, y) */
    uint32_t first, last;           /* those of which all source pixels are inside */
    float column[ROOM], line[ROOM]; /* places */
    int32_t index[ROOM];            /* of the nearest source pixel, or of the first of four */
    float weight[4][ROOM];
    uint16_t upper[ROOM], lower[ROOM]; /* source pixels: two neighbours in each of two rows */
} job;

/* The end of whole blocks. */
static inline uint32_t end_of(uint32_t first, uint32_t last) {
    return first + (last - first + BLOCK - 1) / BLOCK * BLOCK;
}

/* ---- whole pixels --------------------------------------------------------------------------- */

/* Up to this side places are off by less than 0.001, which changes no integer. */
#define SHIFT_SIDE 2048u

/* By how many columns (k = 0) or rows (k = 1) a change shifts images; false: it does more. */
static bool shifts(const ff_change *change, uint32_t k, uint32_t size, int32_t *shift) {
    const float half = 0.5f * (float)size, *m = change->value + 3 * (size_t)k;
    const float whole = m[2] * half;
    if (size > SHIFT_SIDE || !(fabsf(whole) <= (float)size)) return false;
    *shift = (int32_t)ff_change_round(whole);
    return m[k] == 1.0f / half && m[1 - k] == 0.0f && m[2] == (float)*shift / half;
}

int ff_matrix_is_identity(const ff_change *change, uint32_t height, uint32_t width) {
    int32_t right, down;
    return shifts(change, 0, width, &right) && shifts(change, 1, height, &down) && !right && !down;
}

static void move(const job *j, int32_t right, int32_t down) {
    const int32_t height = (int32_t)j->height, width = (int32_t)j->width;
    const int32_t begin = right < 0 ? -right : 0, end = right < 0 ? width : width - right;
    const size_t count = end > begin ? (size_t)(end - begin) : 0;
    uint8_t *to = j->to;
    memset(to, 0, (size_t)j->channels * j->height * j->width);
    for (uint32_t c = 0; count && c < j->channels; c++)
        for (int32_t y = 0; y < height; y++, to += width) {
            const int32_t line = y + down;
            if (line < 0 || line >= height) continue;
            memcpy(to + begin, j->from + ((ptrdiff_t)c * height + line) * width + begin + right,
                   count);
        }
}

/* ---- places --------------------------------------------------------------------------------- */

FF_FMA_CLONES static void find_places(job *j) {
    const float *m = j->change->value, down = ff_matrix_base(j->y, j->height);
    const float own[6] = {m[0], down * m[1], m[2], m[3], down * m[4], m[5]};
    const uint32_t x = j->x, end = end_of(0, j->count), height = j->height, width = j->width;
    float *restrict column = j->column, *restrict line = j->line;
    for (uint32_t i = 0; i < end; i++) {
        const float along = ff_matrix_base(x + i, width);
        column[i] = ff_matrix_place(along * own[0], own[1], own[2], width);
        line[i] = ff_matrix_place(along * own[3], own[4], own[5], height);
    }
}

static bool is_inside(const job *j, uint32_t i) {
    const float column = j->column[i], line = j->line[i];
    if (j->change->kind == FF_CHANGE_NEAREST)
        return ff_matrix_nearest(column, line, j->height, j->width) >= 0;
    return column >= 0.0f && column < (float)(j->width - 1) && line >= 0.0f &&
           line < (float)(j->height - 1);
}

/* The output's pixel i of a channel. */
static uint8_t *pixel_of(const job *j, uint32_t c, uint32_t i) {
    return j->to + ((size_t)c * j->height + j->y) * j->width + j->x + i;
}

/* A pixel whose source is outside, or of whose four source pixels some are. */
FF_FMA_CLONES static void change_edge(const job *j, uint32_t i) {
    const ff_matrix_corners at = ff_matrix_around(j->column[i], j->line[i], j->height, j->width);
    const uint8_t *plane = j->from;
    for (uint32_t c = 0; c < j->channels; c++, plane += (size_t)j->height * j->width) {
        float corner[4] = {0};
        for (int k = 0; k < 4; k++)
            if (at.weight[k] != 0.0f)
                corner[k] = plane[(int64_t)(at.y + (k >> 1)) * j->width + at.x + (k & 1)];
        *pixel_of(j, c, i) =
            j->change->kind == FF_CHANGE_NEAREST
                ? 0
                : ff_matrix_blend(at.weight, corner[0], corner[1], corner[2], corner[3]);
    }
}

/* ---- the nearest ---------------------------------------------------------------------------- */

FF_FMA_CLONES static void find_nearest(job *j) {
    const float *restrict column = j->column, *restrict line = j->line;
    const int32_t width = (int32_t)j->width;
    int32_t *restrict index = j->index;
    const uint32_t first = j->first, last = j->last;
    for (uint32_t i = first; i < last; i++)
        index[i] = (int32_t)ff_change_round(line[i]) * width + (int32_t)ff_change_round(column[i]);
}

static void nearest(job *j) {
    find_nearest(j);
    for (uint32_t c = 0; c < j->channels; c++) {
        const uint8_t *plane = j->from + (size_t)c * j->height * j->width;
        uint8_t *restrict to = pixel_of(j, c, 0);
        for (uint32_t i = j->first; i < j->last; i++) to[i] = plane[j->index[i]];
    }
}

/* ---- bilinear ------------------------------------------------------------------------------- */

/* As ff_matrix_around. */
FF_FMA_CLONES static void find_four(job *j) {
    const float *restrict column = j->column, *restrict line = j->line;
    const uint32_t width = j->width;
    float *restrict nw = j->weight[0], *restrict ne = j->weight[1];
    float *restrict sw = j->weight[2], *restrict se = j->weight[3];
    int32_t *restrict index = j->index;
    const uint32_t first = j->first, end = end_of(first, j->last);
    for (uint32_t i = first; i < end; i++) {
        const int32_t x = (int32_t)column[i], y = (int32_t)line[i];
        const float w = column[i] - (float)x, e = 1.0f - w;
        const float n = line[i] - (float)y, s = 1.0f - n;
        nw[i] = e * s, ne[i] = w * s, sw[i] = e * n, se[i] = w * n;
        index[i] = (int32_t)((uint32_t)y * width + (uint32_t)x);
    }
}

/* Whether the source pixels are neighbours, as those of a shear along rows are. */
FF_FMA_CLONES static bool in_a_row(const job *j) {
    const uint32_t first = j->first, last = j->last;
    const int32_t *restrict index = j->index;
    int32_t apart = 0;
    for (uint32_t i = first; i < last; i++) apart |= index[i] - index[first] - (int32_t)(i - first);
    return apart == 0;
}

FF_FMA_CLONES static void load_row(uint16_t *restrict pairs, const uint8_t *restrict from,
                                   uint32_t count) {
    for (uint32_t i = 0; i < count; i++) pairs[i] = (uint16_t)(from[i] | from[i + 1] << 8);
}

static void load_pairs(job *j, const uint8_t *restrict plane) {
    const uint32_t first = j->first, last = j->last;
    const size_t width = j->width;
    const int32_t *restrict index = j->index;
    uint16_t *restrict upper = j->upper, *restrict lower = j->lower;
    for (uint32_t i = first; i < last; i++) {
        const uint8_t *at = plane + index[i], *below = at + width;
        upper[i] = (uint16_t)(at[0] | at[1] << 8);
        lower[i] = (uint16_t)(below[0] | below[1] << 8);
    }
}

FF_FMA_CLONES static void blend(uint8_t *restrict to, const job *j) {
    const float *restrict nw = j->weight[0], *restrict ne = j->weight[1];
    const float *restrict sw = j->weight[2], *restrict se = j->weight[3];
    const uint16_t *restrict upper = j->upper, *restrict lower = j->lower;
    const uint32_t first = j->first, end = end_of(first, j->last);
    for (uint32_t i = first; i < end; i++) {
        const float weight[4] = {nw[i], ne[i], sw[i], se[i]};
        to[i] = ff_matrix_blend(weight, (float)(upper[i] & 255), (float)(upper[i] >> 8),
                                (float)(lower[i] & 255), (float)(lower[i] >> 8));
    }
}

static void bilinear(job *j) {
    const uint32_t first = j->first, count = j->last - first;
    uint8_t made[ROOM];
    if (!count) return;
    find_four(j);
    const bool row = in_a_row(j);
    for (uint32_t c = 0; c < j->channels; c++) {
        const uint8_t *plane = j->from + (size_t)c * j->height * j->width;
        if (row) {
            load_row(j->upper + first, plane + j->index[first], count);
            load_row(j->lower + first, plane + j->index[first] + j->width, count);
        } else {
            load_pairs(j, plane);
        }
        blend(made, j);
        memcpy(pixel_of(j, c, first), made + first, count);
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void change_row(job *j) {
    for (j->x = 0; j->x < j->width; j->x += SOME) {
        j->count = j->width - j->x < SOME ? j->width - j->x : SOME;
        find_places(j);
        /* Places run along a line, so the pixels whose sources are inside are neighbours. */
        j->first = 0, j->last = j->count;
        while (j->first < j->last && !is_inside(j, j->first)) change_edge(j, j->first++);
        while (j->last > j->first && !is_inside(j, j->last - 1)) change_edge(j, --j->last);
        if (j->change->kind == FF_CHANGE_BILINEAR)
            bilinear(j);
        else
            nearest(j);
    }
}

void ff_matrix_apply(const ff_change *change, const uint8_t *from, uint8_t *to, uint32_t channels,
                     uint32_t height, uint32_t width) {
    int32_t right, down;
    job j = {.change = change, .from = from, .to = to};
    j.channels = channels, j.height = height, j.width = width;
    if (shifts(change, 0, width, &right) && shifts(change, 1, height, &down))
        move(&j, right, down);
    else
        for (; j.y < height; j.y++) change_row(&j);
}
