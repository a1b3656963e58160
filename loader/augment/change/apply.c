#include "loader/augment/change/apply.h"

#include "format/base/compiler.h"
#include "loader/augment/change/blur.h"

#include <assert.h>
#include <string.h>

/* ---- tables --------------------------------------------------------------------------------- */

static void set_table(ff_change_image *image) {
    for (uint32_t c = 0; c < FF_CHANGE_CHANNELS; c++)
        for (int v = 0; v < 256; v++) image->table[c][v] = (uint8_t)v;
}

static void exchange(ff_change_image *image) {
    uint8_t *made = image->spare;
    image->spare = image->pixels == image->begun ? image->third : image->pixels;
    image->pixels = made;
}

/* Before a change in place: the image with which chains begin stays. */
static void keep_begun(ff_change_image *image) {
    if (image->pixels != image->begun) return;
    memcpy(image->spare, image->pixels, (size_t)image->channels * image->height * image->width);
    exchange(image);
}

/* Applies what is still to be applied. */
static void settle(ff_change_image *image, bool *pending) {
    const size_t pixels = (size_t)image->height * image->width;
    if (!*pending) return;
    keep_begun(image);
    for (uint32_t c = 0; c < image->channels; c++) {
        uint8_t *restrict at = image->pixels + c * pixels;
        const uint8_t *restrict table = image->table[c];
        for (size_t i = 0; i < pixels; i++) at[i] = table[at[i]];
    }
    set_table(image);
    *pending = false;
}

/* Counts the values of a plane, after its table. Four counters for each value: neighbouring pixels
 * are often equal, and an addition waits for the one before to the same counter. */
static void count_values(const uint8_t *plane, size_t pixels, const uint8_t table[256],
                         uint32_t count[256]) {
    uint32_t some[4][256] = {{0}};
    size_t i = 0;
    for (; i + 4 <= pixels; i += 4)
        for (int k = 0; k < 4; k++) some[k][plane[i + (size_t)k]]++;
    for (; i < pixels; i++) some[0][plane[i]]++;
    memset(count, 0, 256 * sizeof *count);
    for (int v = 0; v < 256; v++)
        count[table[v]] += some[0][v] + some[1][v] + some[2][v] + some[3][v];
}

FF_FMA_CLONES static uint64_t sum_grey(const uint8_t *restrict r, const uint8_t *restrict g,
                                       const uint8_t *restrict b, size_t pixels) {
    uint64_t sum = 0;
    for (size_t i = 0; i < pixels;) {
        const size_t end = pixels - i < 65536 ? pixels : i + 65536;
        uint32_t some = 0;
        for (; i < end; i++) some += ff_change_grey(r[i], g[i], b[i]);
        sum += some;
    }
    return sum;
}

FF_CLONES static uint64_t sum_values(const uint8_t *value, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += value[i];
    return sum;
}

static float mean_of(const ff_change_image *image) {
    const size_t pixels = (size_t)image->height * image->width;
    const uint8_t *plane = image->pixels;
    return ff_change_mean(image->channels == 3
                              ? sum_grey(plane, plane + pixels, plane + 2 * pixels, pixels)
                              : sum_values(plane, pixels),
                          pixels);
}

/* Adds a change to the table. */
static void change_table(const ff_change *change, ff_change_image *image, bool *pending) {
    const size_t pixels = (size_t)image->height * image->width;
    float mean = 0;
    if (change->kind == FF_CHANGE_CONTRAST) settle(image, pending), mean = mean_of(image);
    for (uint32_t c = 0; c < image->channels; c++) {
        uint8_t *table = image->table[c], own[256];
        uint32_t count[256];
        if (change->kind == FF_CHANGE_EQUALIZE || change->kind == FF_CHANGE_AUTOCONTRAST) {
            count_values(image->pixels + c * pixels, pixels, table, count);
            if (change->kind == FF_CHANGE_EQUALIZE)
                ff_change_equalize(count, (uint32_t)pixels, own);
            else
                ff_change_stretch(count, own);
        } else {
            for (int v = 0; v < 256; v++) own[v] = ff_change_entry(change, mean, (uint8_t)v);
        }
        for (int v = 0; v < 256; v++) table[v] = own[table[v]];
    }
    *pending = true;
}

/* ---- pixels --------------------------------------------------------------------------------- */

FF_FMA_CLONES static void grayscale(uint8_t *restrict r, uint8_t *restrict g, uint8_t *restrict b,
                                    size_t pixels) {
    for (size_t i = 0; i < pixels; i++) r[i] = g[i] = b[i] = ff_change_grey(r[i], g[i], b[i]);
}

FF_FMA_CLONES static void color(uint8_t *restrict r, uint8_t *restrict g, uint8_t *restrict b,
                                size_t pixels, const float factor[2]) {
    const float own[2] = {factor[0], factor[1]};
    for (size_t i = 0; i < pixels; i++) {
        const float grey = (float)ff_change_grey(r[i], g[i], b[i]);
        r[i] = ff_change_blend(own, (float)r[i], grey);
        g[i] = ff_change_blend(own, (float)g[i], grey);
        b[i] = ff_change_blend(own, (float)b[i], grey);
    }
}

/* Pixels `at`, each between two others of its row and of its column. */
FF_FMA_CLONES static void sharpen_run(uint8_t *restrict to, const uint8_t *restrict at,
                                      size_t width, size_t count, const float factor[2]) {
    const uint8_t *above = at - width, *below = at + width;
    const float own[2] = {factor[0], factor[1]};
    for (size_t i = 0; i < count; i++) {
        const uint16_t around = (uint16_t)(above[i - 1] + above[i] + above[i + 1] + at[i - 1] +
                                           at[i + 1] + below[i - 1] + below[i] + below[i + 1]);
        to[i] = ff_change_sharpen(own, at[i], around);
    }
}

/* All inner rows in one run, then the columns of the edges. */
static void sharpen(const ff_change *change, ff_change_image *image) {
    const size_t width = image->width, height = image->height;
    if (width < 3 || height < 3) return;
    for (uint32_t c = 0; c < image->channels; c++) {
        const uint8_t *from = image->pixels + c * height * width;
        uint8_t *to = image->spare + c * height * width;
        const size_t first = width + 1, last = (height - 1) * width;
        sharpen_run(to + first, from + first, width, last - 1 - first, change->value);
        memcpy(to, from, width);
        for (size_t i = width; i < last; i += width)
            to[i] = from[i], to[i + width - 1] = from[i + width - 1];
        memcpy(to + last, from + last, width);
    }
    exchange(image);
}

/* ---- affine changes, blur ------------------------------------------------------------------- */

static void transform(const ff_change *change, ff_change_image *image) {
    ff_matrix_apply(change, image->pixels, image->spare, image->channels, image->height,
                    image->width);
    exchange(image);
}

static void blur(const ff_change *change, ff_change_image *image) {
    const size_t pixels = (size_t)image->height * image->width;
    for (uint32_t c = 0; c < image->channels; c++)
        ff_blur_plane(change, image->pixels + c * pixels, image->spare + c * pixels, image->height,
                      image->width);
    exchange(image);
}

/* Policies often draw a magnitude of 0. */
static bool changes_nothing(const ff_change *change, const ff_change_image *image) {
    switch (change->kind) {
    case FF_CHANGE_BRIGHTNESS:
    case FF_CHANGE_CONTRAST:
    case FF_CHANGE_COLOR:
    case FF_CHANGE_SHARPNESS: return change->value[0] == 1.0f;
    case FF_CHANGE_NEAREST:
    case FF_CHANGE_BILINEAR: return ff_matrix_is_identity(change, image->height, image->width);
    default: return false;
    }
}

static void change_pixels(const ff_change *change, ff_change_image *image) {
    const size_t pixels = (size_t)image->height * image->width;
    const bool colors = change->kind == FF_CHANGE_GRAYSCALE || change->kind == FF_CHANGE_COLOR;
    if (colors && image->channels != 3) return;
    if (colors) keep_begun(image);
    uint8_t *r = image->pixels, *g = r + pixels, *b = g + pixels;
    switch (change->kind) {
    case FF_CHANGE_GRAYSCALE: grayscale(r, g, b, pixels); break;
    case FF_CHANGE_COLOR: color(r, g, b, pixels, change->value); break;
    case FF_CHANGE_SHARPNESS: sharpen(change, image); break;
    case FF_CHANGE_BLUR: blur(change, image); break;
    case FF_CHANGE_NEAREST:
    case FF_CHANGE_BILINEAR: transform(change, image); break;
    default: assert(!"a change of values by tables");
    }
}

/* ---- mixtures ------------------------------------------------------------------------------- */

FF_FMA_CLONES static void weigh(float *restrict sum, const uint8_t *restrict from, size_t values,
                                float weight) {
    for (size_t i = 0; i < values; i++) sum[i] = weight * (float)from[i];
}

FF_FMA_CLONES static void add(float *restrict sum, const uint8_t *restrict from, size_t values,
                              float weight) {
    for (size_t i = 0; i < values; i++) sum[i] += weight * (float)from[i];
}

/* After the table. */
static void add_shown(float *restrict sum, const uint8_t *restrict from, size_t values,
                      float weight, const uint8_t table[256]) {
    float shown[256];
    for (int v = 0; v < 256; v++) shown[v] = weight * (float)table[v];
    for (size_t i = 0; i < values; i++) sum[i] += shown[from[i]];
}

FF_FMA_CLONES static void truncate_sum(uint8_t *restrict to, const float *restrict sum,
                                       size_t values) {
    for (size_t i = 0; i < values; i++) to[i] = ff_change_u8(sum[i]);
}

static void change_sum(const ff_change *change, ff_change_image *image, bool *pending) {
    const size_t pixels = (size_t)image->height * image->width, values = image->channels * pixels;
    const float weight = change->value[0];
    switch (change->kind) {
    case FF_CHANGE_MIX:
        settle(image, pending);
        weigh(image->sum, image->pixels, values, weight);
        image->begun = image->pixels;
        return;
    case FF_CHANGE_CHAIN:
        if (!*pending) add(image->sum, image->pixels, values, weight);
        for (uint32_t c = 0; *pending && c < image->channels; c++)
            add_shown(image->sum + c * pixels, image->pixels + c * pixels, pixels, weight,
                      image->table[c]);
        break;
    default: /* FF_CHANGE_MIXED */ truncate_sum(image->begun, image->sum, values);
    }
    /* The next chain begins with the image that the first began with; or the sum follows. */
    if (image->pixels != image->begun) image->third = image->pixels;
    image->pixels = image->begun;
    if (change->kind == FF_CHANGE_MIXED) image->begun = NULL;
    if (*pending) set_table(image);
    *pending = false;
}

void ff_change_apply(const ff_changes *changes, ff_change_image *image) {
    bool pending = false;
    image->begun = NULL;
    set_table(image);
    for (uint32_t k = 0; k < changes->count; k++) {
        const ff_change *change = &changes->change[k];
        if (changes_nothing(change, image)) continue;
        if (change->kind >= FF_CHANGE_MIX) {
            change_sum(change, image, &pending);
        } else if (change->kind < FF_CHANGE_TABLES) {
            change_table(change, image, &pending);
        } else {
            settle(image, &pending);
            change_pixels(change, image);
        }
    }
}
