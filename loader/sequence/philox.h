/* Counter-based random numbers: Philox4x32-10, one source for host (C11) and CUDA C.
 *
 * Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as
 * 1, 2, 3", SC 2011; the constants and known answers are those of their library Random123.
 *
 * A draw is a pure function of (seed, domain, epoch, index, block), so nothing has to be stored,
 * advanced or shared between threads. Layout of the 128-bit counter and the 64-bit key:
 *
 *   counter[0] = low 32 bits of index          key[0] = low 32 bits of seed
 *   counter[1] = high 32 bits of index         key[1] = high 32 bits of seed
 *   counter[2] = epoch
 *   counter[3] = domain << 16 | block
 *
 * Domains keep unrelated uses of one seed apart; blocks number the draws of one use, four 32-bit
 * words each. Golden values (tests/unit/test_philox.c):
 *
 *   ff_philox_draw(seed 0, domain 0, epoch 0, index 0, block 0)
 *       = 6627e8d5 e169c58d bc57ac4c 9b00dbd8
 *   ff_philox_draw(seed 1, FF_DOMAIN_AUGMENT, epoch 2, index 3, block 0)
 *       = b387ec09 881ebe7d a5e32d36 c44c444e
 *   ff_philox_draw(seed 0x0123456789abcdef, FF_DOMAIN_DROPOUT, epoch 7, index 2^40 + 5, block 9)
 *       = 97c4853f a401808c 2e73d969 7580d312
 *
 * Thread rule: everything here is pure. */
#ifndef FF_LOADER_PHILOX_H
#define FF_LOADER_PHILOX_H

#include <stdint.h>

/* Marks a function that is compiled for host and device from the same source: integers and exact
 * operations only. */
#ifdef __CUDACC__
#define FF_HD static __host__ __device__ __forceinline__
#else
#define FF_HD static inline
#endif

/* The values are part of a run's recorded order: never renumber them. */
typedef enum ff_domain {
    FF_DOMAIN_ORDER = 1, /* keys of the epoch permutations (order.h); index = which permutation */
    /* The index of the next two: ff_sampling_index (sampling.h). */
    FF_DOMAIN_AUGMENT = 2, /* crop, flip and the other augmentations of a view of a sample */
    FF_DOMAIN_FLIP = 3,    /* the first state of alternating flips; epoch 0 */
    FF_DOMAIN_MIX = 4,     /* mixup and cutmix; index = pair of positions */
    FF_DOMAIN_DROPOUT = 5, /* dropout masks; index = element, epoch = step */
    FF_DOMAIN_INIT = 6,    /* initial weights; index = element, epoch = tensor */
    FF_DOMAIN_SAMPLE = 7,  /* samples by weights (sampling.h); index = draw or place */
} ff_domain;

/* Blocks of the draws, by domain: never renumber these either. */
enum {
    /* FF_DOMAIN_ORDER: keys 0 to 3 of a permutation, and the rest. */
    FF_BLOCK_KEYS = 0,
    FF_BLOCK_MORE_KEYS = 1,

    /* FF_DOMAIN_AUGMENT; 168 is the next free one. */
    FF_BLOCK_CROP = 0, /* and random flips */
    FF_BLOCK_CUTOUT = 1,
    FF_BLOCK_RESIZED_CROP = 2, /* to 11: one per try */
    FF_BLOCK_JITTER = 12,
    FF_BLOCK_JITTER_ORDER = 13,
    FF_BLOCK_ERASE = 14,
    FF_BLOCK_ERASE_BOX = 15, /* to 24: one per try */
    FF_BLOCK_CHANGE = 25,    /* and 26: four probabilities each */
    FF_BLOCK_BLUR = 27,
    FF_BLOCK_AFFINE = 29, /* and 30 */
    FF_BLOCK_POLICY = 31,
    FF_BLOCK_POLICY_CHANGE = 32, /* to 39: one per change */
    FF_BLOCK_AUGMIX = 40,        /* to 103: one per change */
    FF_BLOCK_AUGMIX_SHARE = 104, /* to 167: one per try */

    /* FF_DOMAIN_FLIP. */
    FF_BLOCK_FLIP = 0,

    /* FF_DOMAIN_MIX. */
    FF_BLOCK_MIX = 0,
    FF_BLOCK_MIX_KIND = 1,

    /* FF_DOMAIN_SAMPLE. */
    FF_BLOCK_SAMPLE = 0,
    FF_BLOCK_SPLIT = 1,
};
/* Tries for the box of a resized crop and of erasing. */
#define FF_BOX_TRIES 10u

typedef struct ff_random {
    uint32_t word[4];
} ff_random;

/* Ten rounds over the raw counter and key, like Random123's philox4x32. */
FF_HD ff_random ff_philox(uint32_t counter0, uint32_t counter1, uint32_t counter2,
                          uint32_t counter3, uint32_t key0, uint32_t key1) {
    ff_random out;
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * counter0;
        uint64_t b = (uint64_t)0xCD9E8D57u * counter2;
        counter0 = (uint32_t)(b >> 32) ^ counter1 ^ key0;
        counter2 = (uint32_t)(a >> 32) ^ counter3 ^ key1;
        counter1 = (uint32_t)b;
        counter3 = (uint32_t)a;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    out.word[0] = counter0;
    out.word[1] = counter1;
    out.word[2] = counter2;
    out.word[3] = counter3;
    return out;
}

/* Four random words. domain and block are below 65536. */
FF_HD ff_random ff_philox_draw(uint64_t seed, uint32_t domain, uint32_t epoch, uint64_t index,
                               uint32_t block) {
    return ff_philox((uint32_t)index, (uint32_t)(index >> 32), epoch, domain << 16 | block,
                     (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* A word as an integer in [0, count), each with a probability within 2^-32 of 1 / count: the high
 * half of a product, so no division and no rejection (D. Lemire, 2019). count > 0. */
FF_HD uint32_t ff_random_below(uint32_t word, uint32_t count) {
    return (uint32_t)(((uint64_t)word * count) >> 32);
}

/* A word as a float in [0, 1), a multiple of 2^-24: exact, the same on host and device. */
FF_HD float ff_random_unit(uint32_t word) {
    return (float)(word >> 8) * 5.9604644775390625e-8f;
}

#endif
