/* Affine changes on the host. A row's source pixels are found in loops that compilers vectorize,
 * and loaded one by one, with all channels: two neighbours at a time, where all four pixels around
 * a place are inside. So planes are joined before, and rows split after. */
#include "loader/augment/change/matrix.h"

#include "format/base/bytes.h"
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
    const uint8_t *pixels; /* `from` as words, channel c in bits 8c to 8c + 7 */
    uint8_t *to;
    uint32_t channels, height, width;
    uint32_t x, y, count;           /* the output's pixels (x, y) to (x + count, y) */
    uint32_t first, last;           /* those of which all source pixels are inside */
    float column[ROOM], line[ROOM]; /* places; of the nearest, rounded */
    uint32_t index[ROOM];           /* of the nearest source pixel, or of the first of four */
    float weight[4][ROOM];
    uint32_t upper[ROOM][2], lower[ROOM][2]; /* source pixels: neighbours, in each of two rows */
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
    const int32_t x = (int32_t)j->x, end = (int32_t)end_of(0, j->count);
    const uint32_t height = j->height, width = j->width;
    const float middle = -ff_matrix_base(0, width);
    float *restrict column = j->column, *restrict line = j->line;
    for (int32_t i = 0; i < end; i++) {
        const float along = (float)(x + i) - middle;
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

/* ---- pixels --------------------------------------------------------------------------------- */

FF_FMA_CLONES static void join(uint8_t *restrict to, const uint8_t *restrict from, size_t pixels,
                               uint32_t channels) {
    const uint8_t *restrict green = from + pixels, *restrict blue = green + pixels;
    for (size_t i = 0; channels == 3 && i < pixels; i++) {
        const uint32_t word = (uint32_t)from[i] | (uint32_t)green[i] << 8 | (uint32_t)blue[i] << 16;
        memcpy(to + 4 * i, &word, sizeof word);
    }
    for (size_t i = 0; channels == 1 && i < pixels; i++) {
        const uint32_t word = from[i];
        memcpy(to + 4 * i, &word, sizeof word);
    }
}

FF_FMA_CLONES static void split(uint8_t *restrict to, const uint32_t *restrict words, size_t count,
                                uint32_t shift) {
    for (size_t i = 0; i < count; i++) to[i] = (uint8_t)(words[i] >> shift);
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

static void nearest(job *j) {
    uint32_t words[ROOM];
    round_places(j);
    find_span(j, 0.0f, 0.0f, &j->first, &j->last);
    blacken(j, j->first, j->last);
    find_nearest(j);
    const uint32_t first = j->first, count = j->last - first;
    for (uint32_t i = 0; i < count; i++)
        memcpy(&words[i], j->pixels + 4 * (size_t)j->index[first + i], sizeof *words);
    for (uint32_t c = 0; c < j->channels; c++) split(pixel_of(j, c, first), words, count, 8 * c);
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

static void load_four(job *j) {
    const size_t below = 4 * (size_t)j->width;
    for (uint32_t i = j->first; i < j->last; i++) {
        const uint8_t *at = j->pixels + 4 * (size_t)j->index[i];
        memcpy(j->upper[i], at, sizeof j->upper[i]);
        memcpy(j->lower[i], at + below, sizeof j->lower[i]);
    }
}

/* ff_matrix_blend of weights that are not negative and add up to 1: a mean needs no clamp. */
FF_FMA_CLONES static void blend(uint8_t *restrict to, const job *j, uint32_t shift) {
    const float *restrict nw = j->weight[0], *restrict ne = j->weight[1];
    const float *restrict sw = j->weight[2], *restrict se = j->weight[3];
    const uint32_t *restrict upper = j->upper[0], *restrict lower = j->lower[0];
    const uint32_t first = j->first, end = end_of(first, j->last);
    for (size_t i = first; i < end; i++) {
        const float a = (float)(int32_t)(upper[2 * i] >> shift & 255);
        const float b = (float)(int32_t)(upper[2 * i + 1] >> shift & 255);
        const float c = (float)(int32_t)(lower[2 * i] >> shift & 255);
        const float d = (float)(int32_t)(lower[2 * i + 1] >> shift & 255);
        const float sum = fmaf(d, se[i], fmaf(c, sw[i], fmaf(b, ne[i], a * nw[i])));
        to[i] = (uint8_t)ff_float_bits(sum + 12582912.0f); /* ff_change_round's lowest bits */
    }
}

/* Pixels whose four source pixels are inside. */
static void bilinear_inside(job *j) {
    uint8_t made[ROOM];
    find_four(j);
    load_four(j);
    for (uint32_t c = 0; c < j->channels; c++) {
        blend(made, j, 8 * c);
        memcpy(pixel_of(j, c, j->first), made + j->first, j->last - j->first);
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

static bool touches(const job *j, uint32_t i) {
    return j->column[i] >= -1.0f && j->column[i] < (float)j->width && j->line[i] >= -1.0f &&
           j->line[i] < (float)j->height;
}

static void bilinear(job *j) {
    uint32_t begin, end;
    find_span(j, 0.0f, -1.0f, &j->first, &j->last);
    begin = j->first, end = j->last;
    if (begin == end) {
        find_span(j, -1.0f, 0.0f, &begin, &end);
        for (uint32_t i = begin; i < end; i++) bilinear_edge(j, i);
    } else {
        bilinear_inside(j);
        while (begin > 0 && touches(j, begin - 1)) bilinear_edge(j, --begin);
        while (end < j->count && touches(j, end)) bilinear_edge(j, end++);
    }
    blacken(j, begin, end);
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

void ff_matrix_apply(const ff_change *change, const uint8_t *from, uint8_t *to, uint8_t *words,
                     uint32_t channels, uint32_t height, uint32_t width) {
    int32_t right, down;
    job j = {.change = change, .from = from, .pixels = words, .to = to};
    j.channels = channels, j.height = height, j.width = width;
    if (shifts(change, 0, width, &right) && shifts(change, 1, height, &down)) {
        move(&j, right, down);
        return;
    }
    join(words, from, (size_t)height * width, channels);
    for (; j.y < height; j.y++) change_row(&j);
}
