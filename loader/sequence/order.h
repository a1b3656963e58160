/* Room loader/sequence, floor 5: which samples a batch holds, as arithmetic.
 *
 * philox.h draws random numbers from a key, with no state. This header maps a position of an epoch
 * to a sample, and sampling.h does so where samples come several times. sequence.h maps the number
 * of a batch to its epoch, its position and its rows in a share. All of this is integer arithmetic
 * with one source for the host and for kernels, so any rank finds any position at once, on any
 * device.
 *
 * May include format.
 *
 * The order in which an epoch visits the samples: a pure function of (seed, epoch, position), with
 * no table and no memory, one source for host (C11) and CUDA C.
 *
 * The permutation. Positions [0, n) are numbers of b bits, b = the bit length of n - 1, split into
 * a low part of b / 2 bits and a high part of the other bits. Six rounds of an unbalanced Feistel
 * network over [0, 2^b), round r = 0..5 with its 32-bit key k[r]:
 *
 *     even r:  high ^= F(low ^ k[r] ^ tweak) mod 2^(bits of high)
 *     odd r:   low  ^= F(high ^ k[r] ^ tweak) mod 2^(bits of low)
 *     F(x): x ^= x >> 16; x *= 0x7feb352d; x ^= x >> 15; x *= 0x846ca68b; x ^= x >> 16
 *           (32-bit; the "lowbias32" mixer of C. Wellons, hash-prospector, 2018)
 *
 * If b <= 8, six rounds would not reach every permutation about equally often, so four passes of
 * the six rounds are made, pass j with keys k[r] ^ (j * 0x9e3779b9 mod 2^32). The whole computation
 * is repeated while the result is >= n (cycle walking: J. Black, P. Rogaway, "Ciphers with
 * Arbitrary Finite Domains", 2002; fewer than 2 turns on average). Keys k[0..3] and k[4..5] are the
 * words of ff_philox_draw(seed, FF_DOMAIN_ORDER, epoch, which, FF_BLOCK_KEYS) and the next block,
 * where `which` is 0 for the samples of order random, 1 for blocks and 2 within groups; sampling.h
 * has the numbers from 3 on. Within groups tweak is F(group + 1), otherwise 0.
 *
 * Kinds of order:
 *   sequential  position p is sample p.
 *   random      position p is sample permutation(p).
 *   block       samples are cut into blocks of `block` consecutive ones (the last may be shorter).
 *               Blocks are permuted; `group` consecutive permuted blocks form a group; positions
 *               are permuted within their group. So a pass touches `group` blocks at a time, which
 *               suits data larger than memory, and each epoch forms different groups.
 *   node-block  each of M machines has its own part of the permuted blocks in an epoch, and another
 *               one in the next, so that all machines together read a block once. Position p is row
 *               r = p mod B of global batch b = floor(p / B), B = `batch`. Machine m has the rows
 *               [cut(m), cut(m + 1)), cut(m) = U floor(B m / (U M)) and cut(M) = B, with U = 2 if
 *               ranks are cut at even rows (`pairs`), else 1: those of its ranks, whose shares are
 *               equal. Let s be the samples of the permuted blocks, one block after another. In an
 *               epoch of n samples machine m has those from T(m) up to T(m + 1),
 *               T(m) = floor(n / B) cut(m) + min(n mod B, cut(m)), as many as it has positions; its
 *               position number q = b (cut(m + 1) - cut(m)) + r - cut(m). Its positions are cut
 *               into groups of G = `group` * `block`, the last of which is shorter, and permuted
 *               within each group g with tweak F(g M + m + 1):
 *               p is sample s[T(m) + g G + permutation(q - g G)].
 *
 * In this header a sample means its number. With block order it means its place in storage, so that
 * a block is contiguous on disk; if storage order differs from the order of numbers, the loader
 * maps places to numbers.
 *
 * Golden values (tests/unit/test_order.c), seed 42:
 *   random, n = 10, epoch 0:              0 8 5 7 6 9 3 2 4 1
 *   random, n = 10, epoch 1:              5 6 9 2 8 1 0 7 4 3
 *   random, n = 50000, epoch 3, p = 0..4: 30662 12039 5672 48521 10431
 *   random, n = 2^40, epoch 0, p = 0..2:  813458305091 1925197998 660804979975
 *   block 4, group 2, n = 10, epoch 0:    7 5 4 6 3 1 2 0 9 8
 *   node-block 4, group 2, B = 4, M = 2, n = 18, epoch 0:
 *       3 1 16 15 0 2 6 14 11 9 13 17 10 8 12 7 4 5
 *   block 64, group 16, n = 50000, epoch 3, p = 0..4 and 49999:
 *       48739 16903 18741 48712 39958 and 3401
 *
 * Thread rule: everything here is pure. */
#ifndef FF_LOADER_ORDER_H
#define FF_LOADER_ORDER_H

#include "loader/sequence/philox.h"

#define FF_ORDER_ROUNDS 6

/* Files and reports name kinds by ff_order_name. */
typedef enum ff_order_kind {
    FF_ORDER_RANDOM,
    FF_ORDER_BLOCK,
    FF_ORDER_SEQUENTIAL,
    FF_ORDER_NODE_BLOCK,
    FF_ORDER_KIND_COUNT,
} ff_order_kind;

/* Recorded, so that an order can be repeated. */
typedef struct ff_order_spec {
    uint64_t count; /* samples, > 0 */
    uint64_t seed;
    uint64_t block; /* with blocks: samples per block, blocks per group, both > 0 */
    uint64_t group;
    uint64_t batch;    /* with FF_ORDER_NODE_BLOCK: samples of a global batch, > 0 */
    uint32_t machines; /* with FF_ORDER_NODE_BLOCK, > 0 */
    uint32_t pairs;    /* with FF_ORDER_NODE_BLOCK: not 0 = machines' rows begin at even ones */
    ff_order_kind kind;
} ff_order_spec;

/* Whether an order has blocks. */
FF_HD int ff_order_has_blocks(ff_order_kind kind) {
    return kind == FF_ORDER_BLOCK || kind == FF_ORDER_NODE_BLOCK;
}

/* A keyed permutation of [0, count), count > 0. */
typedef struct ff_permutation {
    uint64_t count;
    uint32_t key[FF_ORDER_ROUNDS];
    uint32_t low_bits;
    uint32_t low_mask, high_mask;
    uint32_t passes;
} ff_permutation;

/* The order of one epoch: everything that its positions share. Plain data, copied by value. */
typedef struct ff_order {
    ff_order_spec spec;
    ff_permutation outer; /* of samples, or of blocks */
    ff_permutation inner; /* keys within groups; its count is set for each group */
    uint64_t block_count;
    uint64_t group_samples; /* group * block; more than count if all blocks are one group */
    uint64_t deficit;       /* number of samples missing from the short block */
    uint64_t short_place;   /* the short block's place among the permuted blocks */
    uint64_t short_group;   /* its group */
    uint64_t short_end;     /* position after that group */
} ff_order;

FF_HD uint32_t ff_order_mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

/* Sets the size; the keys stay. */
FF_HD void ff_permutation_resize(ff_permutation *permutation, uint64_t count) {
    uint32_t bits = 0;
    if (count > 1) {
#ifdef __CUDA_ARCH__
        bits = 64u - (uint32_t)__clzll((long long)(count - 1));
#else
        bits = 64u - (uint32_t)__builtin_clzll(count - 1);
#endif
    }
    permutation->count = count;
    permutation->passes = bits <= 8 ? 4 : 1;
    permutation->low_bits = bits / 2;
    permutation->low_mask = (uint32_t)((UINT64_C(1) << (bits / 2)) - 1);
    permutation->high_mask = (uint32_t)((UINT64_C(1) << (bits - bits / 2)) - 1);
}

FF_HD void ff_permutation_init(ff_permutation *permutation, uint64_t count, uint64_t seed,
                               uint32_t epoch, uint64_t which) {
    ff_random first = ff_philox_draw(seed, FF_DOMAIN_ORDER, epoch, which, FF_BLOCK_KEYS);
    ff_random second = ff_philox_draw(seed, FF_DOMAIN_ORDER, epoch, which, FF_BLOCK_MORE_KEYS);
    for (int i = 0; i < 4; i++) permutation->key[i] = first.word[i];
    for (int i = 4; i < FF_ORDER_ROUNDS; i++) permutation->key[i] = second.word[i - 4];
    ff_permutation_resize(permutation, count);
}

/* Maps index < count to [0, count), each value once. */
FF_HD uint64_t ff_permutation_at(const ff_permutation *permutation, uint64_t index,
                                 uint32_t tweak) {
    uint32_t low_mask = permutation->low_mask, high_mask = permutation->high_mask;
    do {
        uint32_t low = (uint32_t)index & low_mask;
        uint32_t high = (uint32_t)(index >> permutation->low_bits);
        for (uint32_t pass = 0; pass < permutation->passes; pass++) {
            uint32_t change = tweak ^ pass * 0x9e3779b9u;
            for (int round = 0; round < FF_ORDER_ROUNDS; round += 2) {
                high ^= ff_order_mix(low ^ permutation->key[round] ^ change) & high_mask;
                low ^= ff_order_mix(high ^ permutation->key[round + 1] ^ change) & low_mask;
            }
        }
        index = (uint64_t)high << permutation->low_bits | low;
    } while (index >= permutation->count);
    return index;
}

/* The index that ff_permutation_at maps to `value` < count. */
FF_HD uint64_t ff_permutation_inverse(const ff_permutation *permutation, uint64_t value,
                                      uint32_t tweak) {
    uint32_t low_mask = permutation->low_mask, high_mask = permutation->high_mask;
    do {
        uint32_t low = (uint32_t)value & low_mask;
        uint32_t high = (uint32_t)(value >> permutation->low_bits);
        for (uint32_t pass = permutation->passes; pass-- > 0;) {
            uint32_t change = tweak ^ pass * 0x9e3779b9u;
            for (int round = FF_ORDER_ROUNDS - 2; round >= 0; round -= 2) {
                low ^= ff_order_mix(high ^ permutation->key[round + 1] ^ change) & low_mask;
                high ^= ff_order_mix(low ^ permutation->key[round] ^ change) & high_mask;
            }
        }
        value = (uint64_t)high << permutation->low_bits | low;
    } while (value >= permutation->count);
    return value;
}

/* Prepares an epoch: 2 to 4 Philox draws. */
FF_HD void ff_order_init(ff_order *order, const ff_order_spec *spec, uint32_t epoch) {
    order->spec = *spec;
    order->block_count = order->group_samples = order->deficit = 0;
    order->short_place = order->short_group = order->short_end = 0;
    ff_permutation_init(&order->outer, spec->count, spec->seed, epoch, 0);
    order->inner = order->outer;
    if (!ff_order_has_blocks(spec->kind)) return;
    order->block_count = (spec->count - 1) / spec->block + 1;
    order->deficit = order->block_count * spec->block - spec->count;
    ff_permutation_init(&order->outer, order->block_count, spec->seed, epoch, 1);
    ff_permutation_init(&order->inner, 1, spec->seed, epoch, 2);
    if (order->spec.group > order->block_count) order->spec.group = order->block_count;
    order->group_samples = order->spec.group * spec->block;
    /* The short block is the last in storage, but may be anywhere in an epoch. */
    order->short_place = ff_permutation_inverse(&order->outer, order->block_count - 1, 0);
    order->short_group = order->short_place / order->spec.group;
    uint64_t last_place = (order->short_group + 1) * order->spec.group;
    if (last_place > order->block_count) last_place = order->block_count;
    order->short_end = last_place * spec->block - order->deficit;
}

/* The shift of positions after the short block's group. */
FF_HD uint64_t ff_order_shift(const ff_order *order, uint64_t position) {
    return position >= order->short_end ? order->deficit : 0;
}

/* With FF_ORDER_NODE_BLOCK: the first row of machine `m` <= machines in a global batch. */
FF_HD uint64_t ff_order_cut(const ff_order_spec *spec, uint64_t m) {
    const uint64_t unit = spec->pairs ? 2 : 1;
    if (m >= spec->machines) return spec->batch;
    return unit * (spec->batch * m / (unit * spec->machines));
}

/* With FF_ORDER_NODE_BLOCK: the first of the permuted blocks' samples that a machine has. */
FF_HD uint64_t ff_order_part(const ff_order_spec *spec, uint64_t m) {
    const uint64_t cut = ff_order_cut(spec, m), rest = spec->count % spec->batch;
    return spec->count / spec->batch * cut + (rest < cut ? rest : cut);
}

/* With FF_ORDER_NODE_BLOCK: the machine that has `position`. cut(m) <= row means that
 * batch m < (u + 1) unit machines, u = floor(row / unit). */
FF_HD uint64_t ff_order_machine(const ff_order_spec *spec, uint64_t position) {
    const uint64_t unit = spec->pairs ? 2 : 1, row = position % spec->batch;
    const uint64_t m = ((row / unit + 1) * unit * spec->machines - 1) / spec->batch;
    return m < spec->machines ? m : spec->machines - 1;
}

/* With FF_ORDER_NODE_BLOCK: the number of `position` among those of its machine. */
FF_HD uint64_t ff_order_own(const ff_order_spec *spec, uint64_t m, uint64_t position) {
    const uint64_t begin = ff_order_cut(spec, m);
    return position / spec->batch * (ff_order_cut(spec, m + 1) - begin) + position % spec->batch -
           begin;
}

/* With blocks: the group of `position` < count, of its machine. */
FF_HD uint64_t ff_order_group(const ff_order *order, uint64_t position) {
    if (order->spec.kind == FF_ORDER_NODE_BLOCK)
        return ff_order_own(&order->spec, ff_order_machine(&order->spec, position), position) /
               order->group_samples;
    return (position + ff_order_shift(order, position)) / order->group_samples;
}

/* With FF_ORDER_NODE_BLOCK: the sample at `position` < count. */
FF_HD uint64_t ff_order_node_at(const ff_order *order, uint64_t position) {
    const ff_order_spec *spec = &order->spec;
    const uint64_t m = ff_order_machine(spec, position);
    const uint64_t own = ff_order_own(spec, m, position), part = ff_order_part(spec, m);
    const uint64_t group = own / order->group_samples, first = group * order->group_samples;
    const uint64_t left = ff_order_part(spec, m + 1) - part - first;
    ff_permutation inner = order->inner;
    ff_permutation_resize(&inner, left < order->group_samples ? left : order->group_samples);
    uint64_t at = part + first +
                  ff_permutation_at(&inner, own - first,
                                    ff_order_mix((uint32_t)(group * spec->machines + m) + 1));
    /* After the short block, samples are in full blocks again. */
    if (order->deficit && at >= (order->short_place + 1) * spec->block - order->deficit)
        at += order->deficit;
    const uint64_t place = at / spec->block;
    return ff_permutation_at(&order->outer, place, 0) * spec->block + (at - place * spec->block);
}

/* The sample at `position` < count. */
FF_HD uint64_t ff_order_at(const ff_order *order, uint64_t position) {
    if (order->spec.kind == FF_ORDER_RANDOM) return ff_permutation_at(&order->outer, position, 0);
    if (order->spec.kind == FF_ORDER_SEQUENTIAL) return position;
    if (order->spec.kind == FF_ORDER_NODE_BLOCK) return ff_order_node_at(order, position);
    uint64_t block = order->spec.block, group_blocks = order->spec.group;
    uint64_t group = ff_order_group(order, position);
    uint64_t within = position + ff_order_shift(order, position) - group * order->group_samples;
    uint64_t first_block = group * group_blocks;
    uint64_t blocks = order->block_count - first_block;
    if (blocks > group_blocks) blocks = group_blocks;
    uint64_t deficit = group == order->short_group ? order->deficit : 0;
    ff_permutation inner = order->inner;
    ff_permutation_resize(&inner, blocks * block - deficit);
    within = ff_permutation_at(&inner, within, ff_order_mix((uint32_t)group + 1));
    /* After this group's short block, samples are in full blocks again. */
    if (deficit && within >= (order->short_place - first_block + 1) * block - deficit)
        within += deficit;
    uint64_t place = within / block;
    return ff_permutation_at(&order->outer, first_block + place, 0) * block +
           (within - place * block);
}

#ifndef __CUDACC__
#include "format/base/status.h"

/* "random" "block" "sequential" "node-block". */
const char *ff_order_name(ff_order_kind kind);

/* The largest default group; the group from which on a batch of 256 from class-sorted data with
 * 1000 classes holds over 90 % of the class count of a batch in random order (for 100 classes 350
 * blocks are enough, tests/unit/test_order.c); the smallest default group. */
enum { FF_ORDER_GROUP = 2048, FF_ORDER_GROUP_MIXED = 1280, FF_ORDER_GROUP_LEAST = 64 };

/* The default block for samples of `sample_bytes`: about 1 MiB, which a loader that reads ahead
 * (loader/host/ahead/) reads in one request if two groups fit its memory. */
uint64_t ff_order_default_block(uint64_t sample_bytes);

/* The default group for blocks of `block_bytes`: the number of blocks that fit into `bytes`, at
 * least FF_ORDER_GROUP_LEAST and at most FF_ORDER_GROUP. */
uint64_t ff_order_default_group(uint64_t block_bytes, uint64_t bytes);

/* The default block and group for a set that does not fit memory, if a group may have `samples`
 * samples. The first goal is FF_ORDER_GROUP_MIXED blocks. The second is that blocks, as far as
 * memory allows, are as large as a disk's requests should be: at least 320 KiB, so that a request
 * of 8 ms reads some 20 samples of 12 KiB instead of one, and at most 1 MiB, or 32 samples in up to
 * 4 MiB. The third is at least FF_ORDER_GROUP_LEAST blocks, of any size. */
void ff_order_fit(uint64_t sample_bytes, uint64_t samples, uint64_t *block, uint64_t *group);

/* FF_USAGE if count, block or group is 0 or too large to multiply, or if there are more machines
 * than rows of a batch. */
FF_MUST_USE ff_status ff_order_check(const ff_order_spec *spec, ff_error *error);
#endif

#endif
