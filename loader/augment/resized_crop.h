/* The box of a random resized crop (torchvision's RandomResizedCrop.get_params, version 0.14): an
 * area that is a uniform share of the sample's and an aspect ratio that is log-uniform, tried ten
 * times until the box fits, else the largest central box with a ratio in range.
 *
 * Draws of try t < FF_BOX_TRIES: d = block FF_BLOCK_RESIZED_CROP + t of (seed, FF_DOMAIN_AUGMENT,
 * epoch, sample), in doubles, each operation rounded once:
 *   area   = height width (scale[0] + (scale[1] - scale[0]) d[0] 2^-32)
 *   ratio' = exp(ln ratio[0] + (ln ratio[1] - ln ratio[0]) d[1] 2^-32)
 *   w = round(sqrt(area ratio')), h = round(sqrt(area / ratio')), halves to even
 *   where 0 < w <= width and 0 < h <= height:
 *     y = ff_random_below(d[2], height - h + 1), x = ff_random_below(d[3], width - w + 1)
 * After ten: where width / height < ratio[0], w = width and h = round(w / ratio[0]); where it is >
 * ratio[1], h = height and w = round(h ratio[1]); else everything; y = (height - h) / 2 and
 * x = (width - w) / 2, rounded down. A side that rounds to 0 is 1 (torchvision would fail).
 * Golden values are in tests/unit/test_augment.c. Thread rule: pure. */
#ifndef FF_LOADER_AUGMENT_RESIZED_CROP_H
#define FF_LOADER_AUGMENT_RESIZED_CROP_H

#include "loader/augment/arithmetic.h"

#include <math.h>

typedef struct ff_crop_box {
    uint32_t y, x, height, width;
} ff_crop_box;

/* scale: shares of the area, 0 < scale[0] <= scale[1] <= 1. ratio: width / height, 0.01 <= ratio[0]
 * <= ratio[1] <= 100. height, width: 1 to 2^20. The box is inside the sample. */
FF_HD ff_crop_box ff_resized_crop_at(const double scale[2], const double ratio[2], uint64_t seed,
                                     uint32_t epoch, uint64_t sample, uint32_t height,
                                     uint32_t width) {
    ff_crop_box box;
    double whole = (double)height * width;
    double low = ff_log(ratio[0]), high = ff_log(ratio[1]);
    for (uint32_t t = 0; t < FF_BOX_TRIES; t++) {
        ff_random d =
            ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_RESIZED_CROP + t);
        double area = whole * (scale[0] + (scale[1] - scale[0]) * (d.word[0] * 0x1p-32));
        double aspect = ff_exp(low + (high - low) * (d.word[1] * 0x1p-32));
        int64_t w = ff_round_even(sqrt(area * aspect)), h = ff_round_even(sqrt(area / aspect));
        if (w < 1 || h < 1 || w > (int64_t)width || h > (int64_t)height) continue;
        box.height = (uint32_t)h;
        box.width = (uint32_t)w;
        box.y = ff_random_below(d.word[2], height - box.height + 1);
        box.x = ff_random_below(d.word[3], width - box.width + 1);
        return box;
    }
    box.height = height;
    box.width = width;
    double shape = (double)width / height;
    if (shape < ratio[0])
        box.height = (uint32_t)ff_round_even(width / ratio[0]);
    else if (shape > ratio[1])
        box.width = (uint32_t)ff_round_even(height * ratio[1]);
    if (box.height < 1) box.height = 1;
    if (box.width < 1) box.width = 1;
    box.y = (height - box.height) / 2;
    box.x = (width - box.width) / 2;
    return box;
}

#endif
