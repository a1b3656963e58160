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
    float column[ROOM], line[ROOM]; /* places; of the nearest, rounded */
    uint32_t index[ROOM];           /* of the nearest source pixel, or of the first of four */
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

/* The pixels whose places are from `low` on and less than `high` more than the image's sides:
 * neighbours, since places run along a line. */
FF_FMA_CLONES static void find_span(const job *j, float low, float high, uint32_t *begin,
                                    uint32_t *end) {
    const float *restrict column = j->column, *restrict line = j->line;
    const float right = (float)j->width + high, below = (float)j->height + high;
    const int32_t count = (int32_t)j->count;
    int32_t first = count, inside = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t in = column[i] >= low ? 1 : 0;
        in = column[i] < right ? in : 0;
        in = line[i] >= low ? in : 0;
        in = line[i] < below ? in : 0;
        const int32_t at = in ? i : count;
        first = at < first ? at : first;
        inside += in;
    }
    *begin = (uint32_t)(inside ? first : 0), *end = *begin + (uint32_t)inside;
}

/* The output's pixel i of a channel. */
static uint8_t *pixel_of(const job *j, uint32_t c, uint32_t i) {
    return j->to + ((size_t)c * j->height + j->y) * j->width + j->x + i;
}

static const uint8_t *plane_of(const job *j, uint32_t c) {
    return j->from + (size_t)c * j->height * j->width;
}

/* Black pixels outside of [begin, end). */
static void blacken(const job *j, uint32_t begin, uint32_t end) {
    for (uint32_t c = 0; c < j->channels; c++) {
        memset(pixel_of(j, c, 0), 0, begin);
        memset(pixel_of(j, c, end), 0, j->count - end);
    }
}

/* Whether the source pixels are neighbours, as those of a shear along rows are. */
FF_FMA_CLONES static bool in_a_row(const job *j) {
    const uint32_t first = j->first, last = j->last;
    const uint32_t *restrict index = j->index;
    uint32_t apart = 0;
    for (uint32_t i = first; i < last; i++) apart |= index[i] - index[first] - (i - first);
    return apart == 0;
}

/* ---- the nearest ---------------------------------------------------------------------------- */

FF_FMA_CLONES static void round_places(job *j) {
    float *restrict column = j->column, *restrict line = j->line;
    const uint32_t end = end_of(0, j->count);
    for (uint32_t i = 0; i < end; i++) {
        column[i] = ff_change_round(column[i]);
        line[i] = ff_change_round(line[i]);
    }
}

FF_FMA_CLONES static void find_nearest(job *j) {
    const float *restrict column = j->column, *restrict line = j->line;
    const int32_t width = (int32_t)j->width;
    uint32_t *restrict index = j->index;
    const uint32_t first = j->first, last = j->last;
    for (uint32_t i = first; i < last; i++)
        index[i] = (uint32_t)((int32_t)line[i] * width + (int32_t)column[i]);
}

/* Eight bytes are stored together: a processor stores once in a cycle. */
static void load_each(uint8_t *restrict to, const uint8_t *restrict plane,
                      const uint32_t *restrict index, size_t count) {
    uint8_t some[8];
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (size_t k = 0; k < 8; k++) some[k] = plane[index[i + k]];
        memcpy(to + i, some, 8);
    }
    for (; i < count; i++) to[i] = plane[index[i]];
}

static void nearest(job *j) {
    round_places(j);
    find_span(j, 0.0f, 0.0f, &j->first, &j->last);
    blacken(j, j->first, j->last);
    if (j->first == j->last) return;
    find_nearest(j);
    const uint32_t first = j->first, count = j->last - first;
    const bool row = in_a_row(j);
    for (uint32_t c = 0; c < j->channels; c++) {
        uint8_t *to = pixel_of(j, c, first);
        if (row)
            memcpy(to, plane_of(j, c) + j->index[first], count);
        else
            load_each(to, plane_of(j, c), j->index + first, count);
    }
}

/* ---- bilinear ------------------------------------------------------------------------------- */

/* As ff_matrix_around. */
FF_FMA_CLONES static void find_four(job *j) {
    const float *restrict column = j->column, *restrict line = j->line;
    const uint32_t width = j->width;
    float *restrict nw = j->weight[0], *restrict ne = j->weight[1];
    float *restrict sw = j->weight[2], *restrict se = j->weight[3];
    uint32_t *restrict index = j->index;
    const uint32_t first = j->first, end = end_of(first, j->last);
    for (uint32_t i = first; i < end; i++) {
        const int32_t x = (int32_t)column[i], y = (int32_t)line[i];
        const float w = column[i] - (float)x, e = 1.0f - w;
        const float n = line[i] - (float)y, s = 1.0f - n;
        nw[i] = e * s, ne[i] = w * s, sw[i] = e * n, se[i] = w * n;
        index[i] = (uint32_t)y * width + (uint32_t)x;
    }
}

FF_FMA_CLONES static void load_row(uint16_t *restrict pairs, const uint8_t *restrict from,
                                   uint32_t count) {
    for (uint32_t i = 0; i < count; i++) pairs[i] = (uint16_t)(from[i] | from[i + 1] << 8);
}

/* The source pixel and the one after it, for each: stored four together. */
static void load_pairs(uint16_t *restrict pairs, const uint8_t *restrict plane,
                       const uint32_t *restrict index, size_t count) {
    uint16_t some[4];
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        for (size_t k = 0; k < 4; k++) {
            const uint8_t *at = plane + index[i + k];
            some[k] = (uint16_t)(at[0] | at[1] << 8);
        }
        memcpy(pairs + i, some, sizeof some);
    }
    for (; i < count; i++) pairs[i] = (uint16_t)(plane[index[i]] | plane[index[i] + 1] << 8);
}

/* ff_matrix_blend of weights that are not negative and add up to 1: a mean needs no clamp. */
FF_FMA_CLONES static void blend(uint8_t *restrict to, const job *j) {
    const float *restrict nw = j->weight[0], *restrict ne = j->weight[1];
    const float *restrict sw = j->weight[2], *restrict se = j->weight[3];
    const uint16_t *restrict upper = j->upper, *restrict lower = j->lower;
    const uint32_t first = j->first, end = end_of(first, j->last);
    for (uint32_t i = first; i < end; i++) {
        const float above = fmaf((float)(upper[i] >> 8), ne[i], (float)(upper[i] & 255) * nw[i]);
        const float sum =
            fmaf((float)(lower[i] >> 8), se[i], fmaf((float)(lower[i] & 255), sw[i], above));
        to[i] = (uint8_t)(int32_t)ff_change_round(sum);
    }
}

/* Pixels whose four source pixels are inside. */
static void bilinear_inside(job *j) {
    const uint32_t first = j->first, count = j->last - first;
    uint8_t made[ROOM];
    if (!count) return;
    find_four(j);
    const bool row = in_a_row(j);
    for (uint32_t c = 0; c < j->channels; c++) {
        const uint8_t *plane = plane_of(j, c), *at = plane + j->index[first];
        if (row) {
            load_row(j->upper + first, at, count);
            load_row(j->lower + first, at + j->width, count);
        } else {
            load_pairs(j->upper + first, plane, j->index + first, count);
            load_pairs(j->lower + first, plane + j->width, j->index + first, count);
        }
        blend(made, j);
        memcpy(pixel_of(j, c, first), made + first, count);
    }
}

/* A pixel of whose four source pixels some are outside. */
FF_FMA_CLONES static void bilinear_edge(const job *j, uint32_t i) {
    const ff_matrix_corners at = ff_matrix_around(j->column[i], j->line[i], j->height, j->width);
    for (uint32_t c = 0; c < j->channels; c++) {
        const uint8_t *plane = plane_of(j, c);
        float corner[4] = {0};
        for (int k = 0; k < 4; k++)
            if (at.weight[k] != 0.0f)
                corner[k] = plane[(int64_t)(at.y + (k >> 1)) * j->width + at.x + (k & 1)];
        *pixel_of(j, c, i) = ff_matrix_blend(at.weight, corner[0], corner[1], corner[2], corner[3]);
    }
}

static void bilinear(job *j) {
    uint32_t begin, end;
    find_span(j, -1.0f, 0.0f, &begin, &end);
    blacken(j, begin, end);
    if (begin == end) return;
    find_span(j, 0.0f, -1.0f, &j->first, &j->last);
    if (j->first == j->last) j->first = j->last = end;
    for (uint32_t i = begin; i < j->first; i++) bilinear_edge(j, i);
    for (uint32_t i = j->last; i < end; i++) bilinear_edge(j, i);
    bilinear_inside(j);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void change_row(job *j) {
    for (j->x = 0; j->x < j->width; j->x += SOME) {
        j->count = j->width - j->x < SOME ? j->width - j->x : SOME;
        find_places(j);
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
