/* How the two samples of a pair are mixed: parameters as a pure function of (seed, epoch, pair),
 * one source for host (C11) and CUDA C. The samples at positions 2k and 2k + 1 of an epoch are pair
 * k (with odd batch sizes: those in rows 2j and 2j + 1 of a batch, k = half the first one's
 * position, rounded down). Both rows get the same weight for their own sample:
 *
 *   mixup    pixel = weight * own + (1 - weight) * partner, in f32 after Normalize, each product
 *            and the sum rounded, then one rounding to the batch's dtype (H. Zhang et al., "mixup:
 *            Beyond Empirical Risk Minimization", 2018).
 *   cutmix   the partner's pixels in a box, the row's own elsewhere; weight = the share of own
 *            pixels (S. Yun et al., "CutMix", 2019).
 * as torchvision's v2.MixUp and v2.CutMix make them, with the partner instead of a batch rolled by
 * one: weight ~ Beta(alpha, alpha); the box has its centre uniform over the output, sides of
 * sqrt(1 - weight) of the output's, each rounded down to an even number, and is clipped at the
 * edges, which changes the weight. Where both are given, each pair gets one of them with equal
 * probability (v2.RandomChoice([CutMix, MixUp])).
 *
 * Draws: d, e = blocks FF_BLOCK_MIX, FF_BLOCK_MIX_KIND of (seed, FF_DOMAIN_MIX, epoch, k), in
 * doubles, each operation rounded once:
 *   weight = ff_beta(alpha, d[0], d[1])
 *   cutmix where its alpha > 0, and either mixup's is 0 or e[0] < 2^31
 *   cutmix: y = ff_random_below(d[2], height), x = ff_random_below(d[3], width),
 *     r = 0.5 sqrt(1 - weight), the box = [y - (int)(r height), y + (int)(r height)) x
 *     [x - (int)(r width), x + (int)(r width)) inside of the output,
 *     weight = 1 - box height * box width / (height width)
 * Golden values are in tests/unit/test_mix.c. Thread rule: pure. */
#ifndef FF_LOADER_AUGMENT_MIX_H
#define FF_LOADER_AUGMENT_MIX_H

#include "loader/augment/arithmetic.h"

#include <math.h>

/* sin(pi x) for |x| <= 1/2, within 2 units in the last place of 1. */
FF_HD double ff_sin_pi(double x) {
    double angle = 3.141592653589793 * x, square = angle * angle, sum = 1;
    for (int n = 22; n > 0; n -= 2) sum = 1 - square * sum / (n * (n + 1));
    return angle * sum;
}

/* A number distributed as Beta(alpha, alpha), 0.01 <= alpha <= 100, from two random words, without
 * rejection: Student's t with 2 alpha degrees of freedom is T = sqrt(2 alpha (U^(-1 / alpha) - 1))
 * cos(2 pi V) (R. W. Bailey, "Polar generation of random variates with the t-distribution", 1994),
 * and (1 + T / sqrt(2 alpha + T^2)) / 2 has the symmetric Beta distribution (L. Devroye,
 * "Random variate generation in one line of code", 1996). */
FF_HD double ff_beta(double alpha, uint32_t first, uint32_t second) {
    double power = -ff_log((first + 0.5) * 0x1p-32) / alpha;
    /* Beyond that the result is exactly 0 or 1, except for one second word in billions. */
    double radius = (power < 100 ? ff_exp(power) : ff_exp(100)) - 1;
    double cosine = ff_sin_pi(0.5 - (second + 0.5) * 0x1p-32);
    double square = radius * cosine * cosine;
    double part = 0.5 * sqrt(square / (1 + square));
    return cosine < 0 ? 0.5 - part : 0.5 + part;
}

typedef struct ff_mix {
    float weight;                /* of the own sample; the partner's is 1 - weight */
    uint32_t cutmix;             /* 1 = box, 0 = blend */
    int32_t y, x, height, width; /* with cutmix: the box, inside the output; may be empty */
} ff_mix;

/* How pair `pair` is mixed. mixup, cutmix: the alphas, 0 = not; at least one is given. */
FF_HD ff_mix ff_mix_at(double mixup, double cutmix, uint64_t seed, uint32_t epoch, uint64_t pair,
                       uint32_t height, uint32_t width) {
    ff_random d = ff_philox_draw(seed, FF_DOMAIN_MIX, epoch, pair, FF_BLOCK_MIX);
    ff_mix mix;
    mix.cutmix = cutmix > 0;
    if (mixup > 0 && cutmix > 0)
        mix.cutmix = ff_philox_draw(seed, FF_DOMAIN_MIX, epoch, pair, FF_BLOCK_MIX_KIND).word[0] <
                     0x80000000u;
    double weight = ff_beta(mix.cutmix ? cutmix : mixup, d.word[0], d.word[1]);
    mix.y = mix.x = mix.height = mix.width = 0;
    if (mix.cutmix) {
        double r = 0.5 * sqrt(1 - weight);
        int32_t y = (int32_t)ff_random_below(d.word[2], height), half_y = (int32_t)(r * height);
        int32_t x = (int32_t)ff_random_below(d.word[3], width), half_x = (int32_t)(r * width);
        mix.y = y > half_y ? y - half_y : 0;
        mix.x = x > half_x ? x - half_x : 0;
        mix.height = (y + half_y < (int32_t)height ? y + half_y : (int32_t)height) - mix.y;
        mix.width = (x + half_x < (int32_t)width ? x + half_x : (int32_t)width) - mix.x;
        weight = 1 - (double)mix.height * mix.width / ((double)height * width);
    }
    mix.weight = (float)weight;
    return mix;
}

#endif
