/* Policies of automatic augmentation, one source for host (C11) and CUDA C: torchvision's
 * TrivialAugmentWide, RandAugment and AutoAugment (version 0.29, transforms/v2/_auto_augment.py),
 * with fill 0; AugMix: loader/augment/change/augmix.h.
 *
 * Number i of n magnitudes from 0 to `most` is most * i / (n - 1), rounded from f64 to f32 (torch
 * rounds steps, which may differ by a unit in the last place from processor to processor).
 *
 * Draws, of blocks of (seed, FF_DOMAIN_AUGMENT, epoch, sample); r = block FF_BLOCK_POLICY_CHANGE +
 * k for change k:
 *   trivialaugment  one change, number ff_random_below(r[0], 14), magnitude
 *                   ff_random_below(r[1], 31)
 *   randaugment     changes ff_random_below(r[0], 14), all with the spec's magnitude
 *   autoaugment     the two changes of pair ff_random_below(p[0], 25), p = block FF_BLOCK_POLICY,
 *                   each applied where r[3] 2^-32 < its probability
 * A change that has a sign is negative where r[2] >= 2^31.
 *
 * Thread rule: everything here is pure. */
#ifndef FF_LOADER_AUGMENT_CHANGE_POLICY_H
#define FF_LOADER_AUGMENT_CHANGE_POLICY_H

#include "loader/augment/change/matrix.h"

typedef enum ff_policy {
    FF_POLICY_NONE,
    FF_POLICY_TRIVIAL,
    FF_POLICY_RAND,
    FF_POLICY_AUGMIX,
    FF_POLICY_IMAGENET, /* autoaugment's, as the next two */
    FF_POLICY_CIFAR10,
    FF_POLICY_SVHN,
} ff_policy;

/* In torchvision's order; Invert is autoaugment's alone. */
typedef enum ff_policy_change {
    FF_POLICY_IDENTITY,
    FF_POLICY_SHEAR_X,
    FF_POLICY_SHEAR_Y,
    FF_POLICY_TRANSLATE_X,
    FF_POLICY_TRANSLATE_Y,
    FF_POLICY_ROTATE,
    FF_POLICY_BRIGHTNESS,
    FF_POLICY_COLOR,
    FF_POLICY_CONTRAST,
    FF_POLICY_SHARPNESS,
    FF_POLICY_POSTERIZE,
    FF_POLICY_SOLARIZE,
    FF_POLICY_AUTOCONTRAST,
    FF_POLICY_EQUALIZE,
    FF_POLICY_CHANGES, /* of trivialaugment, randaugment and augmix */
    FF_POLICY_INVERT = FF_POLICY_CHANGES,
} ff_policy_change;

#define FF_POLICY_BINS      31u /* magnitudes of trivialaugment and randaugment */
#define FF_POLICY_AUTO_BINS 10u
#define FF_POLICY_OPS_MOST  8u /* of randaugment */

/* Adds a policy's change with magnitude number `bin` of `bins`. */
FF_HD void ff_policy_add(ff_changes *changes, ff_policy policy, uint32_t what, uint32_t bin,
                         uint32_t bins, int negative, int bilinear, uint32_t height,
                         uint32_t width) {
    const int wide = policy == FF_POLICY_TRIVIAL, mixes = policy == FF_POLICY_AUGMIX;
    const double share = (double)bin / (bins - 1);
    const double shear = wide ? 0.99 : 0.3, factor = wide ? 0.99 : 0.9;
    const double across = wide ? 32.0 : mixes ? width / 3.0 : 150.0 / 331.0 * width;
    const double down = wide ? 32.0 : mixes ? height / 3.0 : 150.0 / 331.0 * height;
    const double most = what <= FF_POLICY_SHEAR_Y       ? shear
                        : what == FF_POLICY_TRANSLATE_X ? across
                        : what == FF_POLICY_TRANSLATE_Y ? down
                        : what == FF_POLICY_ROTATE      ? (wide ? 135.0 : 30.0)
                                                        : factor;
    /* f32, as torch's */
    const float size = (float)(most * bin / (bins - 1));
    const double magnitude = negative ? -(double)size : (double)size;
    /* Not (int32_t)magnitude: on arm64, GCC makes a double from the integer of a double by
     * truncation, and that of -0.5 is -0. */
    const int32_t shift = negative ? -(int32_t)size : (int32_t)size;
    switch (what) {
    case FF_POLICY_IDENTITY: break;
    case FF_POLICY_SHEAR_X:
        ff_changes_add_shear(changes, bilinear, magnitude, 0, height, width);
        break;
    case FF_POLICY_SHEAR_Y:
        ff_changes_add_shear(changes, bilinear, 0, magnitude, height, width);
        break;
    case FF_POLICY_TRANSLATE_X:
        ff_changes_add_affine(changes, bilinear, 0, shift, 0, 1, 0, height, width);
        break;
    case FF_POLICY_TRANSLATE_Y:
        ff_changes_add_affine(changes, bilinear, 0, 0, shift, 1, 0, height, width);
        break;
    case FF_POLICY_ROTATE:
        ff_changes_add_rotation(changes, bilinear, magnitude, height, width);
        break;
    case FF_POLICY_BRIGHTNESS: ff_changes_add(changes, FF_CHANGE_BRIGHTNESS, 1 + magnitude); break;
    case FF_POLICY_COLOR: ff_changes_add(changes, FF_CHANGE_COLOR, 1 + magnitude); break;
    case FF_POLICY_CONTRAST: ff_changes_add(changes, FF_CHANGE_CONTRAST, 1 + magnitude); break;
    case FF_POLICY_SHARPNESS: ff_changes_add(changes, FF_CHANGE_SHARPNESS, 1 + magnitude); break;
    case FF_POLICY_POSTERIZE:
        ff_changes_add(changes, FF_CHANGE_POSTERIZE,
                       (int)((mixes ? 4.5 : 8.5) - share * (wide ? 6 : 4)));
        break;
    case FF_POLICY_SOLARIZE:
        ff_changes_add(changes, FF_CHANGE_SOLARIZE, 255.0 * (double)(float)(1 - share));
        break;
    case FF_POLICY_AUTOCONTRAST: ff_changes_add(changes, FF_CHANGE_AUTOCONTRAST, 0); break;
    case FF_POLICY_EQUALIZE: ff_changes_add(changes, FF_CHANGE_EQUALIZE, 0); break;
    default: ff_changes_add(changes, FF_CHANGE_INVERT, 0);
    }
}

/* Half a pair of autoaugment: a change, tenths of a probability, and a magnitude's number. */
#define FF_HALF(change, tenths, bin) ((uint32_t)FF_POLICY_##change | (tenths) << 4 | (bin) << 8)

/* Half `half` of pair `pair` of 25. */
FF_HD uint32_t ff_policy_half(ff_policy policy, uint32_t pair, uint32_t half) {
    const uint16_t imagenet[25][2] = {
        {FF_HALF(POSTERIZE, 4, 8), FF_HALF(ROTATE, 6, 9)},
        {FF_HALF(SOLARIZE, 6, 5), FF_HALF(AUTOCONTRAST, 6, 0)},
        {FF_HALF(EQUALIZE, 8, 0), FF_HALF(EQUALIZE, 6, 0)},
        {FF_HALF(POSTERIZE, 6, 7), FF_HALF(POSTERIZE, 6, 6)},
        {FF_HALF(EQUALIZE, 4, 0), FF_HALF(SOLARIZE, 2, 4)},
        {FF_HALF(EQUALIZE, 4, 0), FF_HALF(ROTATE, 8, 8)},
        {FF_HALF(SOLARIZE, 6, 3), FF_HALF(EQUALIZE, 6, 0)},
        {FF_HALF(POSTERIZE, 8, 5), FF_HALF(EQUALIZE, 10, 0)},
        {FF_HALF(ROTATE, 2, 3), FF_HALF(SOLARIZE, 6, 8)},
        {FF_HALF(EQUALIZE, 6, 0), FF_HALF(POSTERIZE, 4, 6)},
        {FF_HALF(ROTATE, 8, 8), FF_HALF(COLOR, 4, 0)},
        {FF_HALF(ROTATE, 4, 9), FF_HALF(EQUALIZE, 6, 0)},
        {FF_HALF(EQUALIZE, 0, 0), FF_HALF(EQUALIZE, 8, 0)},
        {FF_HALF(INVERT, 6, 0), FF_HALF(EQUALIZE, 10, 0)},
        {FF_HALF(COLOR, 6, 4), FF_HALF(CONTRAST, 10, 8)},
        {FF_HALF(ROTATE, 8, 8), FF_HALF(COLOR, 10, 2)},
        {FF_HALF(COLOR, 8, 8), FF_HALF(SOLARIZE, 8, 7)},
        {FF_HALF(SHARPNESS, 4, 7), FF_HALF(INVERT, 6, 0)},
        {FF_HALF(SHEAR_X, 6, 5), FF_HALF(EQUALIZE, 10, 0)},
        {FF_HALF(COLOR, 4, 0), FF_HALF(EQUALIZE, 6, 0)},
        {FF_HALF(EQUALIZE, 4, 0), FF_HALF(SOLARIZE, 2, 4)},
        {FF_HALF(SOLARIZE, 6, 5), FF_HALF(AUTOCONTRAST, 6, 0)},
        {FF_HALF(INVERT, 6, 0), FF_HALF(EQUALIZE, 10, 0)},
        {FF_HALF(COLOR, 6, 4), FF_HALF(CONTRAST, 10, 8)},
        {FF_HALF(EQUALIZE, 8, 0), FF_HALF(EQUALIZE, 6, 0)},
    };
    const uint16_t cifar10[25][2] = {
        {FF_HALF(INVERT, 1, 0), FF_HALF(CONTRAST, 2, 6)},
        {FF_HALF(ROTATE, 7, 2), FF_HALF(TRANSLATE_X, 3, 9)},
        {FF_HALF(SHARPNESS, 8, 1), FF_HALF(SHARPNESS, 9, 3)},
        {FF_HALF(SHEAR_Y, 5, 8), FF_HALF(TRANSLATE_Y, 7, 9)},
        {FF_HALF(AUTOCONTRAST, 5, 0), FF_HALF(EQUALIZE, 9, 0)},
        {FF_HALF(SHEAR_Y, 2, 7), FF_HALF(POSTERIZE, 3, 7)},
        {FF_HALF(COLOR, 4, 3), FF_HALF(BRIGHTNESS, 6, 7)},
        {FF_HALF(SHARPNESS, 3, 9), FF_HALF(BRIGHTNESS, 7, 9)},
        {FF_HALF(EQUALIZE, 6, 0), FF_HALF(EQUALIZE, 5, 0)},
        {FF_HALF(CONTRAST, 6, 7), FF_HALF(SHARPNESS, 6, 5)},
        {FF_HALF(COLOR, 7, 7), FF_HALF(TRANSLATE_X, 5, 8)},
        {FF_HALF(EQUALIZE, 3, 0), FF_HALF(AUTOCONTRAST, 4, 0)},
        {FF_HALF(TRANSLATE_Y, 4, 3), FF_HALF(SHARPNESS, 2, 6)},
        {FF_HALF(BRIGHTNESS, 9, 6), FF_HALF(COLOR, 2, 8)},
        {FF_HALF(SOLARIZE, 5, 2), FF_HALF(INVERT, 0, 0)},
        {FF_HALF(EQUALIZE, 2, 0), FF_HALF(AUTOCONTRAST, 6, 0)},
        {FF_HALF(EQUALIZE, 2, 0), FF_HALF(EQUALIZE, 6, 0)},
        {FF_HALF(COLOR, 9, 9), FF_HALF(EQUALIZE, 6, 0)},
        {FF_HALF(AUTOCONTRAST, 8, 0), FF_HALF(SOLARIZE, 2, 8)},
        {FF_HALF(BRIGHTNESS, 1, 3), FF_HALF(COLOR, 7, 0)},
        {FF_HALF(SOLARIZE, 4, 5), FF_HALF(AUTOCONTRAST, 9, 0)},
        {FF_HALF(TRANSLATE_Y, 9, 9), FF_HALF(TRANSLATE_Y, 7, 9)},
        {FF_HALF(AUTOCONTRAST, 9, 0), FF_HALF(SOLARIZE, 8, 3)},
        {FF_HALF(EQUALIZE, 8, 0), FF_HALF(INVERT, 1, 0)},
        {FF_HALF(TRANSLATE_Y, 7, 9), FF_HALF(AUTOCONTRAST, 9, 0)},
    };
    const uint16_t svhn[25][2] = {
        {FF_HALF(SHEAR_X, 9, 4), FF_HALF(INVERT, 2, 0)},
        {FF_HALF(SHEAR_Y, 9, 8), FF_HALF(INVERT, 7, 0)},
        {FF_HALF(EQUALIZE, 6, 0), FF_HALF(SOLARIZE, 6, 6)},
        {FF_HALF(INVERT, 9, 0), FF_HALF(EQUALIZE, 6, 0)},
        {FF_HALF(EQUALIZE, 6, 0), FF_HALF(ROTATE, 9, 3)},
        {FF_HALF(SHEAR_X, 9, 4), FF_HALF(AUTOCONTRAST, 8, 0)},
        {FF_HALF(SHEAR_Y, 9, 8), FF_HALF(INVERT, 4, 0)},
        {FF_HALF(SHEAR_Y, 9, 5), FF_HALF(SOLARIZE, 2, 6)},
        {FF_HALF(INVERT, 9, 0), FF_HALF(AUTOCONTRAST, 8, 0)},
        {FF_HALF(EQUALIZE, 6, 0), FF_HALF(ROTATE, 9, 3)},
        {FF_HALF(SHEAR_X, 9, 4), FF_HALF(SOLARIZE, 3, 3)},
        {FF_HALF(SHEAR_Y, 8, 8), FF_HALF(INVERT, 7, 0)},
        {FF_HALF(EQUALIZE, 9, 0), FF_HALF(TRANSLATE_Y, 6, 6)},
        {FF_HALF(INVERT, 9, 0), FF_HALF(EQUALIZE, 6, 0)},
        {FF_HALF(CONTRAST, 3, 3), FF_HALF(ROTATE, 8, 4)},
        {FF_HALF(INVERT, 8, 0), FF_HALF(TRANSLATE_Y, 0, 2)},
        {FF_HALF(SHEAR_Y, 7, 6), FF_HALF(SOLARIZE, 4, 8)},
        {FF_HALF(INVERT, 6, 0), FF_HALF(ROTATE, 8, 4)},
        {FF_HALF(SHEAR_Y, 3, 7), FF_HALF(TRANSLATE_X, 9, 3)},
        {FF_HALF(SHEAR_X, 1, 6), FF_HALF(INVERT, 6, 0)},
        {FF_HALF(SOLARIZE, 7, 2), FF_HALF(TRANSLATE_Y, 6, 7)},
        {FF_HALF(SHEAR_Y, 8, 4), FF_HALF(INVERT, 8, 0)},
        {FF_HALF(SHEAR_X, 7, 9), FF_HALF(TRANSLATE_Y, 8, 3)},
        {FF_HALF(SHEAR_Y, 8, 5), FF_HALF(AUTOCONTRAST, 7, 0)},
        {FF_HALF(SHEAR_X, 7, 2), FF_HALF(INVERT, 1, 0)},
    };
    return policy == FF_POLICY_IMAGENET  ? imagenet[pair][half]
           : policy == FF_POLICY_CIFAR10 ? cifar10[pair][half]
                                         : svhn[pair][half];
}
#undef FF_HALF

/* Adds the changes of a policy other than augmix. ops, bin: of randaugment. */
FF_HD void ff_policy_draw(ff_changes *changes, ff_policy policy, uint32_t ops, uint32_t bin,
                          int bilinear, uint64_t seed, uint32_t epoch, uint64_t sample,
                          uint32_t height, uint32_t width) {
    const int pairs = policy >= FF_POLICY_IMAGENET;
    const uint32_t count = policy == FF_POLICY_RAND ? ops : pairs ? 2 : policy == FF_POLICY_TRIVIAL;
    const uint32_t bins = pairs ? FF_POLICY_AUTO_BINS : FF_POLICY_BINS;
    uint32_t pair = 0;
    if (pairs)
        pair = ff_random_below(
            ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_POLICY).word[0], 25);
    for (uint32_t k = 0; k < count; k++) {
        const ff_random r =
            ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_POLICY_CHANGE + k);
        uint32_t what = ff_random_below(r.word[0], FF_POLICY_CHANGES);
        if (policy == FF_POLICY_TRIVIAL) bin = ff_random_below(r.word[1], bins);
        if (pairs) {
            const uint32_t half = ff_policy_half(policy, pair, k);
            if (!(r.word[3] * 0x1p-32 < (double)(half >> 4 & 15) / 10)) continue;
            what = half & 15;
            bin = half >> 8;
        }
        ff_policy_add(changes, policy, what, bin, bins, (int)(r.word[2] >> 31), bilinear, height,
                      width);
    }
}

#endif
