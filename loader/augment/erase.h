/* The box of a random erasing (Z. Zhong et al., "Random Erasing Data Augmentation", 2020;
 * torchvision's RandomErasing.get_params, version 0.14): with a probability, an area that is a
 * uniform share of the output's and an aspect ratio that is log-uniform, tried ten times until the
 * box is smaller than the output in both directions, else nothing is erased.
 *
 * Draws: erased where block FF_BLOCK_ERASE of (seed, FF_DOMAIN_AUGMENT, epoch, sample) has
 * [0] 2^-32 < probability; of try t < FF_BOX_TRIES: d = block FF_BLOCK_ERASE_BOX + t, in doubles,
 * each operation rounded once:
 *   area   = height width (scale[0] + (scale[1] - scale[0]) d[0] 2^-32)
 *   ratio' = exp(ln ratio[0] + (ln ratio[1] - ln ratio[0]) d[1] 2^-32)
 *   h = round(sqrt(area ratio')), w = round(sqrt(area / ratio')), halves to even
 *   where h < height and w < width:
 *     y = ff_random_below(d[2], height - h + 1), x = ff_random_below(d[3], width - w + 1)
 * Golden values are in tests/unit/test_augment.c. Thread rule: pure. */
#ifndef FF_LOADER_AUGMENT_ERASE_H
#define FF_LOADER_AUGMENT_ERASE_H

#include "loader/augment/resized_crop.h"

/* Draws the box in an output of height x width; a box of height or width 0 erases nothing. */
FF_HD ff_crop_box ff_erase_at(double probability, const double scale[2], const double ratio[2],
                              uint64_t seed, uint32_t epoch, uint64_t sample, uint32_t height,
                              uint32_t width) {
    ff_crop_box box = {0, 0, 0, 0};
    const ff_random chance = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_ERASE);
    if (!(chance.word[0] * 0x1p-32 < probability)) return box;
    const double whole = (double)height * width;
    const double low = ff_log(ratio[0]), high = ff_log(ratio[1]);
    for (uint32_t t = 0; t < FF_BOX_TRIES; t++) {
        const ff_random d =
            ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_ERASE_BOX + t);
        const double area = whole * (scale[0] + (scale[1] - scale[0]) * (d.word[0] * 0x1p-32));
        const double aspect = ff_exp(low + (high - low) * (d.word[1] * 0x1p-32));
        const int64_t h = ff_round_even(sqrt(area * aspect)),
                      w = ff_round_even(sqrt(area / aspect));
        if (h >= (int64_t)height || w >= (int64_t)width) continue;
        box.height = (uint32_t)h;
        box.width = (uint32_t)w;
        box.y = ff_random_below(d.word[2], height - box.height + 1);
        box.x = ff_random_below(d.word[3], width - box.width + 1);
        break;
    }
    return box;
}

#endif
