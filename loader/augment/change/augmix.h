/* AugMix, one source for host (C11) and CUDA C: torchvision's (version 0.29,
 * transforms/v2/_auto_augment.py), with fill 0. The sum of the image times own and of `chains`
 * chains of changes of the image times (1 - own) share[i]; own is distributed as Beta(alpha,
 * alpha), and the shares as the symmetric Dirichlet distribution of alpha, which is that of
 * independent numbers of Gamma(alpha, 1) divided by their sum.
 *
 * Draws, of blocks of (seed, FF_DOMAIN_AUGMENT, epoch, sample); p = block FF_BLOCK_POLICY, r =
 * block FF_BLOCK_AUGMIX + 8 i + k for change k of chain i:
 *   own = ff_beta(alpha, p[0], p[1])
 *   a chain has 1 + ff_random_below(r[3], 3) changes, r of its first one, or the spec's `depth`
 *   a change is number ff_random_below(r[0], 13), or 9 without brightness, color, contrast and
 *   sharpness, with magnitude ff_random_below(r[1], severity) of 10, negative where r[2] >= 2^31
 *   share[i]: ff_augmix_gamma's tries are blocks FF_BLOCK_AUGMIX_SHARE + 8 i on.
 *
 * Thread rule: everything here is pure. */
#ifndef FF_LOADER_AUGMENT_CHANGE_AUGMIX_H
#define FF_LOADER_AUGMENT_CHANGE_AUGMIX_H

#include "loader/augment/change/policy.h"
#include "loader/augment/mix.h"

#define FF_AUGMIX_SEVERITY_MOST 10u
#define FF_AUGMIX_CHAINS_MOST   8u
#define FF_AUGMIX_DEPTH_MOST    8u
#define FF_AUGMIX_TRIES         8u /* all fail once in 10^10 numbers */

typedef struct ff_augmix_spec {
    uint32_t severity, chains; /* from 1 on */
    uint32_t depth;            /* 0 = 1 to 3 changes at random */
    uint32_t basic;            /* 1 = without brightness, color, contrast and sharpness */
    double alpha;              /* 0.01 to 100 */
} ff_augmix_spec;

/* The logarithm of a number distributed as Gamma(alpha, 1), which may be too small for a double (G.
 * Marsaglia, W. W. Tsang, "A Simple Method for Generating Gamma Variables", 2000). */
FF_HD double ff_augmix_gamma(double alpha, uint64_t seed, uint32_t epoch, uint64_t sample,
                             uint32_t chain) {
    const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / sqrt(9 * d);
    double found = 0, boost = 0;
    for (uint32_t k = 0; k < FF_AUGMIX_TRIES; k++) {
        const ff_random r = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample,
                                           FF_BLOCK_AUGMIX_SHARE + chain * FF_AUGMIX_TRIES + k);
        const double radius = sqrt(-2 * ff_log((r.word[0] + 0.5) * 0x1p-32));
        const double normal = radius * ff_sin_pi(0.5 - (r.word[1] + 0.5) * 0x1p-32);
        const double root = 1 + c * normal, cube = root * root * root;
        if (alpha < 1) boost = ff_log((r.word[3] + 0.5) * 0x1p-32) / alpha;
        if (!(root > 0)) continue;
        const double log_cube = 3 * ff_log(root);
        if (ff_log((r.word[2] + 0.5) * 0x1p-32) >=
            0.5 * normal * normal + d * (1 - cube + log_cube))
            continue;
        found = log_cube;
        break;
    }
    return ff_log(d) + found + boost;
}

/* The shares of the chains. */
FF_HD void ff_augmix_shares(double share[FF_AUGMIX_CHAINS_MOST], const ff_augmix_spec *spec,
                            uint64_t seed, uint32_t epoch, uint64_t sample) {
    double most = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < spec->chains; i++) {
        share[i] = ff_augmix_gamma(spec->alpha, seed, epoch, sample, i);
        most = share[i] > most ? share[i] : most;
    }
    for (uint32_t i = 0; i < spec->chains; i++) {
        share[i] = share[i] - most < -100 ? 0 : ff_exp(share[i] - most);
        sum += share[i];
    }
    for (uint32_t i = 0; i < spec->chains; i++) share[i] /= sum;
}

/* Adds the changes of AugMix. */
FF_HD void ff_augmix_draw(ff_changes *changes, const ff_augmix_spec *spec, int bilinear,
                          uint64_t seed, uint32_t epoch, uint64_t sample, uint32_t height,
                          uint32_t width) {
    const ff_random p = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, FF_BLOCK_POLICY);
    const double own = ff_beta(spec->alpha, p.word[0], p.word[1]);
    double share[FF_AUGMIX_CHAINS_MOST];
    ff_augmix_shares(share, spec, seed, epoch, sample);
    ff_changes_add(changes, FF_CHANGE_MIX, own);
    for (uint32_t i = 0; i < spec->chains; i++) {
        uint32_t depth = spec->depth;
        for (uint32_t k = 0; k == 0 || k < depth; k++) {
            const ff_random r = ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample,
                                               FF_BLOCK_AUGMIX + i * FF_AUGMIX_DEPTH_MOST + k);
            if (!depth) depth = 1 + ff_random_below(r.word[3], 3);
            uint32_t what = 1 + ff_random_below(r.word[0], spec->basic ? 9 : 13);
            if (spec->basic && what >= FF_POLICY_BRIGHTNESS) what += 4;
            ff_policy_add(changes, FF_POLICY_AUGMIX, what,
                          ff_random_below(r.word[1], spec->severity), FF_POLICY_AUTO_BINS,
                          (int)(r.word[2] >> 31), bilinear, height, width);
        }
        ff_changes_add(changes, FF_CHANGE_CHAIN, share[i] * (1 - own));
    }
    ff_changes_add(changes, FF_CHANGE_MIXED, 0);
}

#endif
