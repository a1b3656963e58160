#include "loader/augment/change/apply.h"

#include "format/base/compiler.h"
#include "loader/augment/change/blur.h"
#include "loader/augment/change/table.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/* Values that are changed together: what is found on the way stays in the L1 cache. */
enum { SOME = 2048 };

typedef struct work {
    uint8_t *pixels; /* [channels][height][width] */
    uint8_t *spare;  /* as large; changes may exchange the two */
    uint8_t *begun;  /* while chains are mixed: the image with which each begins; else NULL */
    uint8_t *words;  /* for affine changes: [height][width][4] */
    uint8_t *kept;   /* with mixtures: one more image for each chain */
    uint32_t channels, height, width;
    /* While chains are mixed: the weights of `begun` and of the chains that are done. */
    uint32_t chains;
    const uint8_t *chain[FF_AUGMIX_CHAINS_MOST];
    float weight[1 + FF_AUGMIX_CHAINS_MOST];
    /* If `pending`: value v of channel c is still to become table[c][v]. */
    bool pending;
    uint8_t table[FF_CHANGE_CHANNELS][256];
} work;

static size_t pixels_of(const work *image) {
    return (size_t)image->height * image->width;
}
static size_t values_of(const work *image) {
    return image->channels * pixels_of(image);
}

/* `spare` becomes the image; the image with which chains begin stays. */
static void exchange(work *image) {
    uint8_t *made = image->spare;
    image->spare = image->pixels;
    if (image->pixels == image->begun) image->spare = image->kept, image->kept += values_of(image);
    image->pixels = made;
}

/* Before a change in place. */
static void keep_begun(work *image) {
    if (image->pixels != image->begun) return;
    memcpy(image->spare, image->pixels, values_of(image));
    exchange(image);
}

/* ---- tables --------------------------------------------------------------------------------- */

static bool is_identity(const uint8_t table[256]) {
    uint8_t differs = 0;
    for (int v = 0; v < 256; v++) differs |= table[v] ^ (uint8_t)v;
    return !differs;
}

/* Applies the table that is still to be applied. */
static void settle(work *image) {
    const size_t pixels = pixels_of(image);
    bool same = true;
    if (!image->pending) return;
    image->pending = false;
    for (uint32_t c = 0; c < image->channels; c++) same &= is_identity(image->table[c]);
    if (same) return;
    uint8_t *to = image->pixels == image->begun ? image->spare : image->pixels;
    for (uint32_t c = 0; c < image->channels; c++)
        ff_change_look_up(to + c * pixels, image->pixels + c * pixels, pixels, image->table[c]);
    if (to == image->spare) exchange(image);
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

static float mean_of(const work *image) {
    const size_t pixels = pixels_of(image);
    const uint8_t *plane = image->pixels;
    return ff_change_mean(image->channels == 3
                              ? sum_grey(plane, plane + pixels, plane + 2 * pixels, pixels)
                              : sum_values(plane, pixels),
                          pixels);
}

/* The table of a change of a channel; mean: for contrast. */
static void make_table(const ff_change *change, const work *image, uint32_t c, float mean,
                       uint8_t table[256]) {
    const size_t pixels = pixels_of(image);
    const uint8_t *plane = image->pixels + c * pixels;
    uint32_t count[256] = {0};
    if (change->kind == FF_CHANGE_EQUALIZE) {
        ff_change_count(plane, pixels, count);
        ff_change_equalize(count, (uint32_t)pixels, table);
    } else if (change->kind == FF_CHANGE_AUTOCONTRAST) {
        uint8_t low, high;
        ff_change_extremes(plane, pixels, &low, &high);
        count[low] = count[high] = 1;
        ff_change_stretch(count, table);
    } else {
        for (int v = 0; v < 256; v++) table[v] = ff_change_entry(change, mean, (uint8_t)v);
    }
}

/* Adds a change to the table. */
static void change_table(const ff_change *change, work *image) {
    const bool reads = change->kind >= FF_CHANGE_EQUALIZE; /* its table depends on the image */
    if (reads) settle(image);
    const float mean = change->kind == FF_CHANGE_CONTRAST ? mean_of(image) : 0;
    for (uint32_t c = 0; c < image->channels; c++) {
        uint8_t *table = image->table[c], own[256];
        make_table(change, image, c, mean, own);
        for (int v = 0; v < 256; v++) table[v] = own[image->pending ? table[v] : v];
    }
    image->pending = true;
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
FF_FMA_CLONES static void sharpen_some(uint8_t *restrict to, const uint8_t *restrict at,
                                       size_t width, size_t count, const float factor[2]) {
    const uint8_t *from = at - 1, *above = from - width, *below = from + width;
    const float own[2] = {factor[0], factor[1]};
    uint16_t three[SOME + 2], smooth[SOME]; /* three: the sums of a column */
    for (size_t i = 0; i < count + 2; i++) three[i] = (uint16_t)(above[i] + from[i] + below[i]);
    for (size_t i = 0; i < count; i++)
        smooth[i] = ff_change_smooth((uint16_t)(three[i] + three[i + 1] + three[i + 2]), at[i]);
    for (size_t i = 0; i < count; i++) to[i] = ff_change_sharpen(own, at[i], smooth[i]);
}

/* All inner rows in one run, then the columns of the edges. */
static void sharpen(const ff_change *change, work *image) {
    const size_t width = image->width, height = image->height;
    if (width < 3 || height < 3) return;
    for (uint32_t c = 0; c < image->channels; c++) {
        const uint8_t *from = image->pixels + c * height * width;
        uint8_t *to = image->spare + c * height * width;
        const size_t first = width + 1, last = (height - 1) * width;
        for (size_t i = first; i + 1 < last; i += SOME)
            sharpen_some(to + i, from + i, width, last - 1 - i < SOME ? last - 1 - i : SOME,
                         change->value);
        memcpy(to, from, width);
        for (size_t i = width; i < last; i += width)
            to[i] = from[i], to[i + width - 1] = from[i + width - 1];
        memcpy(to + last, from + last, width);
    }
    exchange(image);
}

/* ---- affine changes, blur ------------------------------------------------------------------- */

static void transform(const ff_change *change, work *image) {
    ff_matrix_apply(change, image->pixels, image->spare, image->words, image->channels,
                    image->height, image->width);
    exchange(image);
}

static void blur(const ff_change *change, work *image) {
    const size_t pixels = pixels_of(image);
    for (uint32_t c = 0; c < image->channels; c++)
        ff_blur_plane(change, image->pixels + c * pixels, image->spare + c * pixels, image->height,
                      image->width);
    exchange(image);
}

/* Policies often draw a magnitude of 0. */
static bool changes_nothing(const ff_change *change, const work *image) {
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

static void change_pixels(const ff_change *change, work *image) {
    const size_t pixels = pixels_of(image);
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

FF_FMA_CLONES static void truncate_sum(uint8_t *restrict to, const float *restrict sum,
                                       size_t values) {
    for (size_t i = 0; i < values; i++) to[i] = ff_change_u8(sum[i]);
}

/* Into the image with which the chains began. */
static void mix(const work *image) {
    const size_t values = values_of(image);
    float sum[SOME];
    for (size_t at = 0; at < values; at += SOME) {
        const size_t n = values - at < SOME ? values - at : SOME;
        weigh(sum, image->begun + at, n, image->weight[0]);
        for (uint32_t k = 0; k < image->chains; k++)
            add(sum, image->chain[k] + at, n, image->weight[1 + k]);
        truncate_sum(image->begun + at, sum, n);
    }
}

static void change_mixture(const ff_change *change, work *image) {
    settle(image);
    switch (change->kind) {
    case FF_CHANGE_MIX:
        image->begun = image->pixels;
        image->weight[0] = change->value[0];
        return;
    case FF_CHANGE_CHAIN:
        image->chain[image->chains++] = image->pixels;
        image->weight[image->chains] = change->value[0];
        image->pixels = image->begun;
        return;
    default: /* FF_CHANGE_MIXED */ mix(image); image->begun = NULL;
    }
}

uint8_t *ff_change_apply(const ff_changes *changes, uint8_t *memory, uint32_t channels,
                         uint32_t height, uint32_t width) {
    work image = {.pixels = memory, .channels = channels, .height = height, .width = width};
    image.spare = memory + values_of(&image);
    image.words = image.spare + values_of(&image);
    image.kept = image.words + 4 * pixels_of(&image);
    for (uint32_t k = 0; k < changes->count; k++) {
        const ff_change *change = &changes->change[k];
        if (changes_nothing(change, &image)) continue;
        if (change->kind >= FF_CHANGE_MIX) {
            change_mixture(change, &image);
        } else if (change->kind < FF_CHANGE_TABLES) {
            change_table(change, &image);
        } else {
            settle(&image);
            change_pixels(change, &image);
        }
    }
    settle(&image);
    return image.pixels;
}
