/* Room loader/augment, floor 6: what is done to a sample on its way into a batch.
 *
 * This header parses the options of an augmentation and draws each sample's parameters from its
 * number. finish.h applies them in one pass over a sample: crop, flip, cutout, normalization,
 * conversion. resample.h cuts and resizes as torchvision does; jitter.h, erase.h and mix.h have the
 * formulas of their names. host.h chooses plain loops, AVX2 or AVX-512, which give the same bits;
 * loader/cuda has the kernels, from the same headers.
 *
 * May include format, loader/sequence.
 *
 * How a sample is augmented: parameters as a pure function of (seed, epoch, sample), one source for
 * host (C11) and CUDA C, integers only. Where a sample may come several times in an epoch, another
 * number takes the place of the sample's, and in each view after the first
 * (loader/sequence/sampling.h).
 *
 * In the order in which they are applied to a sample of height x width:
 *   pad     by `pad` pixels on each side, with the normalized black ((0 - mean) / std) or with the
 *           reflection that does not repeat the edge (torchvision's padding_mode "reflect").
 *   resize  of the whole sample, so that its short side has `resize` pixels (torchvision's
 *           Resize(N): the long one has N * long / short, rounded down, at most 2^30),
 *           antialiased; later steps apply to the resized sample.
 *   crop    to the output size: random (torchvision's RandomCrop(size, padding=pad): the corner is
 *           uniform over all places of the padded image), else central (CenterCrop: the corner is
 *           the half difference, rounded half to even).
 *   rrc     instead of pad, resize and crop: a random resized crop. A random box of the sample
 *           (loader/augment/resized_crop.h) is resampled to the output size, antialiased
 *           (torchvision's RandomResizedCrop(antialias=True); loader/augment/resample.h).
 *   flip    horizontally with probability 1/2, or alternating: a random state for each sample,
 *           inverted every epoch (K. Jordan, "94% on CIFAR-10 in 3.29 Seconds", 2024).
 *   vflip   vertically with a probability.
 *   jitter  of brightness, contrast, saturation and hue, in [0, 1] before Normalize
 *           (loader/augment/jitter.h).
 *   changes of the values of u8 before Normalize (loader/augment/change/draw.h); jittered values
 *           are rounded to u8 before.
 *   cutout  of a square of `cutout` pixels, its centre uniform over the output (T. DeVries,
 *           G. Taylor, 2017), clipped at the edges; filled with 0, the mean after Normalize.
 *   erase   instead of cutout: of a random box with a probability (loader/augment/erase.h), also
 *           with 0.
 *   mixup, cutmix
 *           with the sample of the neighbouring row, which went through all of the above with its
 *           own parameters (loader/augment/mix.h).
 *
 * Draws: a, b = blocks FF_BLOCK_CROP, FF_BLOCK_CUTOUT of (seed, FF_DOMAIN_AUGMENT, epoch, sample),
 * f = block FF_BLOCK_FLIP of (seed, FF_DOMAIN_FLIP, 0, sample):
 *   y = ff_random_below(a[0], height + 2 pad - out_height + 1) - pad
 *   x = ff_random_below(a[1], width + 2 pad - out_width + 1) - pad
 *   flip = a[2] >> 31 (random), or (f[0] >> 31) ^ (epoch & 1) (alternating)
 *   vflip = a[3] 2^-32 < the probability
 *   cut_y = ff_random_below(b[0], out_height) - cutout / 2
 *   cut_x = ff_random_below(b[1], out_width) - cutout / 2
 * with resize, height and width are those of the resized sample; with rrc, y and x are the box's;
 * draws of jitter, erasing and mixing in their headers. Golden values are in
 * tests/unit/test_augment.c.
 *
 * Output pixel (r, c) of an image flipped or not is, with r' = vflip ? out_height - 1 - r : r and
 *   c' = flip ? out_width - 1 - c : c, pixel (y + r', x + c') of the source (resized, with resize),
 *   or padding outside of it; with rrc pixel (r', c') of the resampled box;
 * and 0 where cut_y <= r < cut_y + cutout and cut_x <= c < cut_x + cutout. Thread rule: everything
 * here is pure. */
#ifndef FF_LOADER_AUGMENT_AUGMENT_H
#define FF_LOADER_AUGMENT_AUGMENT_H

#include "loader/augment/change/draw.h"
#include "loader/augment/erase.h"
#include "loader/augment/mix.h"
#include "loader/augment/resized_crop.h"

typedef enum ff_pad_mode { FF_PAD_BLACK, FF_PAD_REFLECT } ff_pad_mode;
typedef enum ff_flip_mode { FF_FLIP_NONE, FF_FLIP_RANDOM, FF_FLIP_ALTERNATE } ff_flip_mode;

/* The augmentations, applied to every sample. All zero: no augmentation. */
typedef struct ff_augment_spec {
    uint32_t crop; /* 1 = random crop after padding; 0 = central crop */
    uint32_t pad;  /* pixels on each side, with crop */
    ff_pad_mode pad_mode;
    ff_flip_mode flip;
    double vflip;          /* probability; 0 = none */
    uint32_t cutout;       /* side of the square; 0 = none */
    uint32_t resize;       /* short side; 0 = samples keep their size */
    uint32_t rrc;          /* side of the output of random resized crops; 0 = none */
    double scale[2];       /* with rrc: the box's share of the sample's area, 0 < .. <= 1 */
    double ratio[2];       /* with rrc: the box's width / height, 0.01 to 100 */
    double erase;          /* probability of a random erasing; 0 = none */
    double erase_scale[2]; /* with erase: the box's share of the output's area */
    double erase_ratio[2]; /* with erase: the box's height / width, 0.01 to 100 */
    double jitter[4];      /* of brightness, contrast, saturation and hue; 0 = unchanged */
    double mixup;          /* alpha, 0.01 to 100; 0 = none */
    double cutmix;         /* alpha, 0.01 to 100; 0 = none */
    ff_change_spec change;
} ff_augment_spec;

#define FF_AUGMENT_FLIP 1u /* flags: mirrored horizontally */
#define FF_AUGMENT_BOX  2u /* height x width pixels at (y, x) are resampled to the output */
/* the whole sample is resampled to height x width; y, x refer to that */
#define FF_AUGMENT_RESIZE 4u
#define FF_AUGMENT_MIXUP  8u  /* blended with the sample of row ^ 1 */
#define FF_AUGMENT_CUTMIX 16u /* the box at (mix_y, mix_x) shows the sample of row ^ 1 */
#define FF_AUGMENT_VFLIP  32u /* upside down */

/* The augmentation of one row: 64 bytes, the same on host and device. */
typedef struct ff_augment_params {
    uint64_t sample;                /* its number */
    int32_t y, x;                   /* source pixel of the crop's corner; negative in the padding */
    uint32_t height, width;         /* with FF_AUGMENT_BOX and FF_AUGMENT_RESIZE; else 0 */
    int32_t cut_y, cut_x;           /* corner of the cutout in the output; may be negative */
    uint32_t cut_height, cut_width; /* 0 = none */
    /* With FF_AUGMENT_CUTMIX, inside of the output; else 0. */
    int32_t mix_y, mix_x, mix_height, mix_width;
    float weight;   /* of this sample where two are mixed (row ^ 1 has the rest); else 1 */
    uint32_t flags; /* FF_AUGMENT_... */
} ff_augment_params;

/* The corner of a central crop of `out` from `in` >= out: (in - out) / 2 rounded half to even. */
FF_HD int32_t ff_augment_center(uint32_t in, uint32_t out) {
    uint32_t difference = in - out, lower = difference / 2;
    return (int32_t)(lower + (difference & lower & 1));
}

/* Whether samples are resampled, so that samples of different sizes become one size. */
FF_HD int ff_augment_resamples(const ff_augment_spec *spec) {
    return spec->resize != 0 || spec->rrc != 0;
}

/* The size of a sample of height x width after Resize(resize). */
FF_HD void ff_augment_resized(uint32_t resize, uint32_t *height, uint32_t *width) {
    uint32_t *small = *height < *width ? height : width;
    uint32_t *large = *height < *width ? width : height;
    uint64_t length = (uint64_t)((double)((uint64_t)resize * *large) / *small);
    *large = length < (1u << 30) ? (uint32_t)length : 1u << 30;
    *small = resize;
}

/* Parameters of `sample` (height x width) in `epoch` for an output of out_height x out_width; sizes
 * that ff_augment_check accepts. */
FF_HD ff_augment_params ff_augment_at(const ff_augment_spec *spec, uint64_t seed, uint32_t epoch,
                                      uint64_t sample, uint32_t height, uint32_t width,
                                      uint32_t out_height, uint32_t out_width) {
    ff_augment_params params;
    params.sample = sample;
    params.cut_y = params.cut_x = 0;
    params.cut_height = params.cut_width = spec->cutout;
    params.mix_y = params.mix_x = params.mix_height = params.mix_width = 0;
    params.weight = 1.0f;
    params.flags = 0;
    params.height = params.width = 0;
    if (spec->resize) {
        ff_augment_resized(spec->resize, &height, &width);
        params.height = height;
        params.width = width;
    }
    ff_random a = {{0, 0, 0, 0}};
    if (spec->crop || spec->flip == FF_FLIP_RANDOM || spec->vflip > 0)
        a = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_CROP);
    if (spec->flip == FF_FLIP_RANDOM) params.flags = a.word[2] >> 31;
    if (spec->rrc) {
        ff_crop_box box =
            ff_resized_crop_at(spec->scale, spec->ratio, seed, epoch, sample, height, width);
        params.y = (int32_t)box.y;
        params.x = (int32_t)box.x;
        params.height = box.height;
        params.width = box.width;
    } else if (spec->crop) {
        params.y = (int32_t)ff_random_below(a.word[0], height + 2 * spec->pad - out_height + 1) -
                   (int32_t)spec->pad;
        params.x = (int32_t)ff_random_below(a.word[1], width + 2 * spec->pad - out_width + 1) -
                   (int32_t)spec->pad;
    } else {
        params.y = ff_augment_center(height, out_height);
        params.x = ff_augment_center(width, out_width);
    }
    if (spec->flip == FF_FLIP_ALTERNATE)
        params.flags =
            (ff_philox_draw(seed, FF_DOMAIN_FLIP, 0, sample, FF_BLOCK_FLIP).word[0] >> 31) ^
            (epoch & 1);
    if (spec->vflip > 0 && a.word[3] * 0x1p-32 < spec->vflip) params.flags |= FF_AUGMENT_VFLIP;
    params.flags |= spec->rrc ? FF_AUGMENT_BOX : spec->resize ? FF_AUGMENT_RESIZE : 0;
    if (spec->cutout) {
        ff_random b = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_CUTOUT);
        params.cut_y =
            (int32_t)ff_random_below(b.word[0], out_height) - (int32_t)(spec->cutout / 2);
        params.cut_x = (int32_t)ff_random_below(b.word[1], out_width) - (int32_t)(spec->cutout / 2);
    }
    if (spec->erase > 0) {
        ff_crop_box box = ff_erase_at(spec->erase, spec->erase_scale, spec->erase_ratio, seed,
                                      epoch, sample, out_height, out_width);
        params.cut_y = (int32_t)box.y;
        params.cut_x = (int32_t)box.x;
        params.cut_height = box.height;
        params.cut_width = box.width;
    }
    return params;
}

/* Whether colours are changed. */
FF_HD int ff_augment_jitters(const ff_augment_spec *spec) {
    return spec->jitter[0] > 0 || spec->jitter[1] > 0 || spec->jitter[2] > 0 || spec->jitter[3] > 0;
}

/* The row of the image before a vertical flip that row `line` of the output shows. */
FF_HD uint32_t ff_augment_line(const ff_augment_params *params, uint32_t line, uint32_t height) {
    return params->flags & FF_AUGMENT_VFLIP ? height - 1 - line : line;
}

/* Whether rows are mixed with their partners'. */
FF_HD int ff_augment_mixes(const ff_augment_spec *spec) {
    return spec->mixup > 0 || spec->cutmix > 0;
}

/* Adds to a row's parameters how its pair is mixed (loader/augment/mix.h). For a spec that mixes,
 * and rows that have a partner: row ^ 1 is below the batch's count. pair = half the even row's
 * position in the epoch, rounded down. Both rows of a pair get the same. A weight of 1 leaves the
 * row unchanged, with no flag. */
FF_HD void ff_augment_mix(const ff_augment_spec *spec, ff_augment_params *params, uint64_t seed,
                          uint32_t epoch, uint64_t pair, uint32_t out_height, uint32_t out_width) {
    ff_mix mix = ff_mix_at(spec->mixup, spec->cutmix, seed, epoch, pair, out_height, out_width);
    if (mix.weight == 1.0f) return;
    params->weight = mix.weight;
    params->flags |= mix.cutmix ? FF_AUGMENT_CUTMIX : FF_AUGMENT_MIXUP;
    params->mix_y = mix.y;
    params->mix_x = mix.x;
    params->mix_height = mix.height;
    params->mix_width = mix.width;
}

/* Reflects a coordinate at most `size` - 1 outside of [0, size) into it, without repeating the
 * edge. */
FF_HD int32_t ff_augment_reflect(int32_t at, int32_t size) {
    if (at < 0) at = -at;
    return at < size ? at : 2 * (size - 1) - at;
}

#ifndef __CUDACC__
#include "format/base/memory.h"
#include "loader/augment/text.h"

/* Parses the value of --augment: "none", or a list of augmentations, each at most once, as in
 * "crop=4,flip,cutout=8", "rrc=224,flip,jitter=0.4:0.4:0.4,mixup=0.2" and
 * "rrc=224:0.25-1:0.75-1.3333,flip"; ff_augment_help prints the syntax of each. Defaults: rrc has
 * scale 0.08-1 and ratio 3/4 to 4/3, erase 0.02-0.33 and 0.3-3.3, alpha is 1. FF_USAGE names the
 * part that is wrong and what is known, or the two that exclude each other. */
FF_MUST_USE ff_status ff_augment_parse(ff_augment_spec *spec, const char *text, ff_error *error);

/* Whether the text has a crop without a padding: the padding is then ff_augment_usual_pad for
 * samples of height x width or larger, of which out_height x out_width (0: all) are cropped: 4 for
 * small images, an eighth of the side for others, but at most the samples' short side, and 0 if the
 * samples are larger than the output. */
bool ff_augment_chooses_pad(const char *text);
uint32_t ff_augment_usual_pad(uint32_t height, uint32_t width, uint32_t out_height,
                              uint32_t out_width);
#define FF_AUGMENT_SMALL 64u /* pixels a side of small images, at most */

/* The list for --help: every augmentation with its values. Returns `text`. */
#define FF_AUGMENT_HELP_BYTES 2048
const char *ff_augment_help(char text[FF_AUGMENT_HELP_BYTES]);

/* The canonical text of a spec, to be recorded; ff_augment_parse reads it back. */
void ff_augment_text(const ff_augment_spec *spec, ff_text text);

/* FF_USAGE where samples of height x width cannot be augmented to out_height x out_width: the
 * output is larger than the (padded or resized) sample, or the padding is larger than the sample's
 * short side (reflected: as large), as in torch's "reflect". */
FF_MUST_USE ff_status ff_augment_check(const ff_augment_spec *spec, uint32_t height, uint32_t width,
                                       uint32_t out_height, uint32_t out_width, ff_error *error);
#endif

#endif
