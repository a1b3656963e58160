/* What an augmented sample looks like: parameters as a pure function of (seed, epoch, sample), one
 * text for the host (C11) and CUDA C, integers only.
 *
 * In the order in which they act on a sample of height x width:
 *   pad     by `pad` pixels on each side, with the normalized black ((0 - mean) / std) or with the
 *           reflection that does not repeat the edge (torchvision's padding_mode "reflect").
 *   crop    to the output size: random (torchvision's RandomCrop(size, padding=pad): the corner is
 *           uniform over all places of the padded image), else central (CenterCrop: the corner is
 *           the half difference, rounded half to even).
 *   flip    horizontally with probability 1/2, or alternating: a random state for each sample,
 *           turned over every epoch (K. Jordan, "94% on CIFAR-10 in 3.29 Seconds", 2024).
 *   cutout  of a square of `cutout` pixels, its centre uniform over the output (T. DeVries,
 *           G. Taylor, 2017), cut at the edges; filled with 0, the mean after Normalize.
 *
 * Draws: a = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, 0), b = the same with block 1,
 * f = ff_philox_draw(seed, FF_DOMAIN_FLIP, 0, sample, 0):
 *   y = ff_random_below(a[0], height + 2 pad - out_height + 1) - pad
 *   x = ff_random_below(a[1], width + 2 pad - out_width + 1) - pad
 *   flip = a[2] >> 31 (random), or (f[0] >> 31) ^ (epoch & 1) (alternating)
 *   cut_y = ff_random_below(b[0], out_height) - cutout / 2
 *   cut_x = ff_random_below(b[1], out_width) - cutout / 2
 * Golden values are in tests/unit/test_augment.c.
 *
 * Output pixel (r, c) of an image flipped or not is source pixel
 *   (y + r, x + (flip ? out_width - 1 - c : c)), or padding outside of the source,
 * and 0 where cut_y <= r < cut_y + cutout and cut_x <= c < cut_x + cutout.
 * Thread rule: everything here is pure. */
#ifndef FF_LOADER_AUGMENT_H
#define FF_LOADER_AUGMENT_H

#include "loader/philox.h"

typedef enum ff_pad_mode { FF_PAD_BLACK, FF_PAD_REFLECT } ff_pad_mode;
typedef enum ff_flip_mode { FF_FLIP_NONE, FF_FLIP_RANDOM, FF_FLIP_ALTERNATE } ff_flip_mode;

/* What is done, to every sample. All zero: nothing. */
typedef struct ff_augment_spec {
    uint32_t crop; /* 1 = random crop after padding; 0 = central crop */
    uint32_t pad;  /* pixels on each side, with crop */
    ff_pad_mode pad_mode;
    ff_flip_mode flip;
    uint32_t cutout; /* side of the square; 0 = none */
} ff_augment_spec;

#define FF_AUGMENT_FLIP 1u /* flags: mirrored horizontally */

/* What is done to one sample: 32 bytes, the same on host and device. */
typedef struct ff_augment_params {
    uint64_t sample;      /* its number */
    int32_t y, x;         /* source pixel of the crop's corner; negative in the padding */
    int32_t cut_y, cut_x; /* corner of the cutout in the output; may be negative */
    float weight;         /* of this sample where two are mixed; 1 */
    uint32_t flags;       /* FF_AUGMENT_... */
} ff_augment_params;

/* The corner of a central crop of `out` from `in` >= out: (in - out) / 2 rounded half to even. */
FF_HD int32_t ff_augment_center(uint32_t in, uint32_t out) {
    uint32_t difference = in - out, half = difference / 2;
    return (int32_t)(half + (difference & half & 1));
}

/* Parameters of `sample` (height x width) in `epoch`, to an output of out_height x out_width, each
 * at most height or width (+ 2 pad with crop). */
FF_HD ff_augment_params ff_augment_at(const ff_augment_spec *spec, uint64_t seed, uint32_t epoch,
                                      uint64_t sample, uint32_t height, uint32_t width,
                                      uint32_t out_height, uint32_t out_width) {
    ff_augment_params params;
    params.sample = sample;
    params.cut_y = params.cut_x = 0;
    params.weight = 1.0f;
    params.flags = 0;
    if (spec->crop || spec->flip == FF_FLIP_RANDOM) {
        ff_random a = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, 0);
        params.y = (int32_t)ff_random_below(a.word[0], height + 2 * spec->pad - out_height + 1) -
                   (int32_t)spec->pad;
        params.x = (int32_t)ff_random_below(a.word[1], width + 2 * spec->pad - out_width + 1) -
                   (int32_t)spec->pad;
        if (spec->flip == FF_FLIP_RANDOM) params.flags = a.word[2] >> 31;
    }
    if (!spec->crop) {
        params.y = ff_augment_center(height, out_height);
        params.x = ff_augment_center(width, out_width);
    }
    if (spec->flip == FF_FLIP_ALTERNATE)
        params.flags =
            (ff_philox_draw(seed, FF_DOMAIN_FLIP, 0, sample, 0).word[0] >> 31) ^ (epoch & 1);
    if (spec->cutout) {
        ff_random b = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, 1);
        params.cut_y =
            (int32_t)ff_random_below(b.word[0], out_height) - (int32_t)(spec->cutout / 2);
        params.cut_x = (int32_t)ff_random_below(b.word[1], out_width) - (int32_t)(spec->cutout / 2);
    }
    return params;
}

/* The source coordinate in [0, size) of a coordinate up to `size` - 1 outside of it, by reflection
 * that does not repeat the edge. */
FF_HD int32_t ff_augment_reflect(int32_t at, int32_t size) {
    if (at < 0) at = -at;
    return at < size ? at : 2 * (size - 1) - at;
}

#ifndef __CUDACC__
#include "format/base/memory.h"

/* Parses the value of --augment: "none", or a list of crop[=PAD][:reflect], flip[=alternate] and
 * cutout=SIZE, each at most once, as in "crop=4,flip,cutout=8". FF_USAGE names the part that is
 * wrong and what is known. */
FF_MUST_USE ff_status ff_augment_parse(ff_augment_spec *spec, const char *text, ff_error *error);

/* The canonical text of a spec, which ff_augment_parse reads back; for recording. */
#define FF_AUGMENT_TEXT_BYTES 96
void ff_augment_text(const ff_augment_spec *spec, char text[FF_AUGMENT_TEXT_BYTES]);

/* FF_USAGE where samples of height x width cannot be augmented so to out_height x out_width: the
 * output is larger than the (padded) sample, or reflection reaches beyond it. */
FF_MUST_USE ff_status ff_augment_check(const ff_augment_spec *spec, uint32_t height, uint32_t width,
                                       uint32_t out_height, uint32_t out_width, ff_error *error);
#endif

#endif
