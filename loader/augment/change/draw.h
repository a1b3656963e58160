/* Which changes a sample gets (loader/augment/change/change.h): a pure function of (seed, epoch,
 * sample), one source for host (C11) and CUDA C.
 *
 * In this order, the changes that a spec has:
 *   affine  torchvision's RandomAffine(degrees, translate, scale, shear) with fill 0
 *   a policy: trivialaugment, randaugment or autoaugment (loader/augment/change/policy.h), or
 * augmix (loader/augment/change/augmix.h) grayscale, blur, solarize, posterize, invert, equalize,
 * autocontrast, sharpness each with a probability of its own, as torchvision's RandomGrayscale,
 * GaussianBlur in RandomApply, RandomSolarize, RandomPosterize, RandomInvert, RandomEqualize,
 *           RandomAutocontrast and RandomAdjustSharpness.
 *
 * Draws, blocks of (seed, FF_DOMAIN_AUGMENT, epoch, sample):
 *   ff_chance k is applied where word[k % 4] of block FF_BLOCK_CHANGE + k / 4 times 2^-32 is below
 *   its probability; blur's sigma is ff_random_unit(word 0 of FF_BLOCK_BLUR) (high - low) + low, in
 *   f32 as torch's uniform_
 *   affine, d, e = blocks FF_BLOCK_AFFINE and FF_BLOCK_AFFINE + 1, with u(word, most) =
 *   most (2 word 2^-32 - 1) in f64:
 *     degrees = u(d[0], degrees), right = round(u(d[1], translate width)), down =
 *     round(u(d[2], translate height)), halves to even, scale = scale[0] + (scale[1] - scale[0])
 *     d[3] 2^-32, shear = u(e[0], shear)
 * Golden values are in tests/unit/test_change.c. Thread rule: everything here is pure. */
#ifndef FF_LOADER_AUGMENT_CHANGE_DRAW_H
#define FF_LOADER_AUGMENT_CHANGE_DRAW_H

#include "loader/augment/arithmetic.h"
#include "loader/augment/change/augmix.h"

#include <assert.h>

/* The changes that have probabilities of their own: entries of the arrays below. */
typedef enum ff_chance {
    FF_CHANCE_GRAYSCALE,
    FF_CHANCE_SOLARIZE,
    FF_CHANCE_POSTERIZE,
    FF_CHANCE_INVERT,
    FF_CHANCE_EQUALIZE,
    FF_CHANCE_AUTOCONTRAST,
    FF_CHANCE_SHARPNESS,
    FF_CHANCE_BLUR,
    FF_CHANCES,
} ff_chance;

/* All zero: no change. */
typedef struct ff_change_spec {
    uint32_t affine;                   /* 1 = the next ones are set */
    double degrees;                    /* to 180, either way */
    double translate, scale[2], shear; /* shares of a side, 0 to 1; factors; degrees, to 80 */
    uint32_t bilinear;                 /* affine: 1 = interpolated */
    uint32_t policy;                   /* ff_policy */
    uint32_t ops, magnitude;  /* randaugment: up to FF_POLICY_OPS_MOST, and a magnitude's number */
    uint32_t policy_bilinear; /* as `bilinear` */
    ff_augmix_spec augmix;
    double probability[FF_CHANCES]; /* 0 = never */
    double value[FF_CHANCES];       /* for each ff_change that has one; blur: the size, odd */
    double sigma[2];                /* blur: from and to */
} ff_change_spec;

/* Whether there are any. */
FF_HD int ff_change_any(const ff_change_spec *spec) {
    int any = spec->affine || spec->policy != FF_POLICY_NONE;
    for (int k = 0; k < FF_CHANCES; k++) any |= spec->probability[k] > 0;
    return any;
}

/* Whether images are mixed, which needs a third image and a sum. */
FF_HD int ff_change_mixes(const ff_change_spec *spec) {
    return spec->policy == FF_POLICY_AUGMIX;
}
/* The images of u8 that a row needs while it is changed. */
FF_HD uint32_t ff_change_images(const ff_change_spec *spec) {
    return ff_change_mixes(spec) ? 3 : 2;
}

/* The most changes of an image: an affine one, a policy's, and each chance's. */
static_assert(1 + FF_POLICY_OPS_MOST + FF_CHANCES <= FF_CHANGES_MOST &&
                  1 + 2 + FF_AUGMIX_CHAINS_MOST * (FF_AUGMIX_DEPTH_MOST + 1) + FF_CHANCES <=
                      FF_CHANGES_MOST,
              "FF_CHANGES_MOST is too small");

FF_HD ff_change_kind ff_chance_kind(int chance) {
    return chance == FF_CHANCE_GRAYSCALE      ? FF_CHANGE_GRAYSCALE
           : chance == FF_CHANCE_SOLARIZE     ? FF_CHANGE_SOLARIZE
           : chance == FF_CHANCE_POSTERIZE    ? FF_CHANGE_POSTERIZE
           : chance == FF_CHANCE_INVERT       ? FF_CHANGE_INVERT
           : chance == FF_CHANCE_EQUALIZE     ? FF_CHANGE_EQUALIZE
           : chance == FF_CHANCE_AUTOCONTRAST ? FF_CHANGE_AUTOCONTRAST
           : chance == FF_CHANCE_SHARPNESS    ? FF_CHANGE_SHARPNESS
                                              : FF_CHANGE_BLUR;
}

/* The chance that is applied at a place: blur after grayscale, as SimCLR and DINO have them. */
FF_HD int ff_chance_at(int place) {
    return place == 0 ? FF_CHANCE_GRAYSCALE : place == 1 ? FF_CHANCE_BLUR : place - 1;
}

FF_HD float ff_blur_sigma(const ff_change_spec *spec, uint64_t seed, uint32_t epoch,
                          uint64_t sample) {
    const ff_random r = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_BLUR);
    const float low = (float)spec->sigma[0], high = (float)spec->sigma[1];
    return ff_random_unit(r.word[0]) * (high - low) + low;
}

/* Adds a random affine change. */
FF_HD void ff_affine_draw(ff_changes *changes, const ff_change_spec *spec, uint64_t seed,
                          uint32_t epoch, uint64_t sample, uint32_t height, uint32_t width) {
    const ff_random d = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_AFFINE);
    const ff_random e = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_AFFINE + 1);
    double shift[2];
    for (int k = 0; k < 2; k++) {
        const double at =
            spec->translate * (k ? height : width) * (2 * (d.word[1 + k] * 0x1p-32) - 1);
        shift[k] = at < 0 ? -(double)ff_round_even(-at) : (double)ff_round_even(at);
    }
    ff_changes_add_affine(
        changes, (int)spec->bilinear, spec->degrees * (2 * (d.word[0] * 0x1p-32) - 1), shift[0],
        shift[1], spec->scale[0] + (spec->scale[1] - spec->scale[0]) * (d.word[3] * 0x1p-32),
        spec->shear * (2 * (e.word[0] * 0x1p-32) - 1), height, width);
}

/* Draws the changes of a sample whose output is height x width. */
FF_HD void ff_changes_at(ff_changes *changes, const ff_change_spec *spec, uint64_t seed,
                         uint32_t epoch, uint64_t sample, uint32_t height, uint32_t width) {
    changes->count = 0;
    if (spec->affine) ff_affine_draw(changes, spec, seed, epoch, sample, height, width);
    if (spec->policy == FF_POLICY_AUGMIX)
        ff_augmix_draw(changes, &spec->augmix, (int)spec->policy_bilinear, seed, epoch, sample,
                       height, width);
    else
        ff_policy_draw(changes, (ff_policy)spec->policy, spec->ops, spec->magnitude,
                       (int)spec->policy_bilinear, seed, epoch, sample, height, width);
    for (int place = 0; place < FF_CHANCES; place++) {
        const int k = ff_chance_at(place);
        if (!(spec->probability[k] > 0)) continue;
        const ff_random r = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample,
                                           FF_BLOCK_CHANGE + (uint32_t)k / 4);
        if (!(r.word[k % 4] * 0x1p-32 < spec->probability[k])) continue;
        ff_changes_add(changes, ff_chance_kind(k), spec->value[k]);
        if (k == FF_CHANCE_BLUR)
            changes->change[changes->count - 1].value[1] = ff_blur_sigma(spec, seed, epoch, sample);
    }
}

#endif
