/* Samples that come several times in an epoch: by weights, by classes, or repeated. One source for
 * host (C11) and CUDA C, integers only. Pure.
 *
 * The place at position p of an epoch is a pure function of (seed, epoch, p), as in order.h, which
 * decides where nothing is asked for here. A global batch has `batch` positions.
 *
 * Repeats: the first d = ceil(batch / repeats) positions of a batch have d drawn samples, the next
 * d the same samples, and so on, so that partners of mixup differ and ranks share the repeats (E.
 * Hoffer et al., "Augment your batch", 2019; torchvision's RASampler). Position p shows draw number
 * (p / batch) d + p mod batch mod d.
 *
 * Weights: draw q is the place i with table[i - 1] <= x < table[i], table[-1] = 0, with
 * x = floor(r table[count - 1] / 2^64). r is the first two words of (seed, FF_DOMAIN_SAMPLE, epoch,
 * q, FF_BLOCK_SAMPLE), the first word being the upper half.
 *
 * Weights without replacement: n = `distinct` samples are chosen for an epoch, each at most once.
 * One sample is u = table[count - 1] / n, and no place has more than u, so n times a place's share
 * is the probability that the place is chosen. A tree halves the places: a node with s of the sum
 * has floor(s / u) or ceil(s / u) chosen places, and the root has n. Of a node's halves with l and
 * r of the sum, the first has floor(l / u) chosen places and the second floor(r / u). If one more
 * is left, a draw decides which half has it; if two are left, each half has one. With f = l mod u
 * and g = r mod u the probability of the first half is f / (f + g) if f + g < u, and
 * (u - g) / (2 u - f - g) otherwise, which keeps the probability of each place (A. Srinivasan,
 * "Distributions on level-sets with applications to approximation algorithms", FOCS 2001). The draw
 * is that of (seed, FF_DOMAIN_SAMPLE, epoch, m, FF_BLOCK_SPLIT), m = the first place of the second
 * half. Draw number q is chosen place number permutation(q) of the permutation of n with which = 3.
 *
 * Classes: each batch has classes drawn without replacement, and per_class samples of each class,
 * different ones if the class has enough. Class j of batch b is value j of the permutation of all
 * classes with which = 2 b + 4. Sample k of class c is value k mod size of the permutation of its
 * samples with which = 2 b + 5 and tweak F(c + 1). Class c has the places [table[c], table[c + 1]).
 *
 * Shares: the places are those of `count` sets, set k has [begin[k], begin[k + 1]), and each set
 * has a share of the draws, in whole numbers: C[k] is the sum of the shares before set k, W the sum
 * of all. The draws of an epoch are cut into `units` = M units of `unit` = U draws: U is 1 (the
 * shares are those of the epoch) or the draws of a batch (the shares are those of each batch).
 *
 *     turn = permutation of the M units, at the unit of the draw
 *     slot = permutation of the U draws of a unit, at the draw, tweak F(2 unit + 1)
 *     cut[k] = floor(U C[k] / W + turn / M): set k has the slots [cut[k], cut[k + 1])
 *     rank = (sum of cut[k + 1] - cut[k] over all smaller turns) + slot - cut[k]
 *     place = begin[k] + permutation of the set's places, at rank mod size,
 *             tweak F(2 (rank / size count + k) + 2)
 *
 * So a unit has floor(U share) or ceil(U share) draws of each set; an epoch has its share of all
 * draws, up to one; and the ranks of a set are 0, 1, 2, ... each once in an epoch, so that its
 * samples come equally often, up to one. (An incomplete last batch leaves out some ranks.) With
 * q[k] = floor(U C[k] / W) and t[k] = M - floor(M (U C[k] mod W) / W), which the table has,
 *
 *     cut[k] = q[k] + (turn >= t[k]), and the sum of cut[k] over smaller turns is
 *     turn q[k] + max(0, turn - t[k]).
 *
 * The permutations have the keys of the order's (which = 0). Shares may change by epoch: the table
 * is begin[count + 1], then for each of `stages` stages its first epoch, q[count + 1] and
 * t[count + 1]; the first stage begins with epoch 0.
 *
 * Where a sample may come several times, its augmentation is drawn by its position, not by its
 * number: the index of the draws is 2^63 + p.
 *
 * Views: if a batch has several views of each sample, the index of view v is that of view 0 plus
 * v 2^56, for all draws of FF_DOMAIN_AUGMENT and FF_DOMAIN_FLIP. View 0 is thus augmented as a
 * sample without views. Numbers and positions of samples are below 2^56, v below 64. */
#ifndef FF_LOADER_SAMPLING_H
#define FF_LOADER_SAMPLING_H

#include "loader/sequence/order.h"

typedef enum ff_sampling_kind {
    FF_SAMPLING_ORDER, /* the order's places */
    FF_SAMPLING_WEIGHTS,
    FF_SAMPLING_CLASSES,
    FF_SAMPLING_DISTINCT, /* weights without replacement */
    FF_SAMPLING_SHARES,
} ff_sampling_kind;

/* All zero: the order's places, each once. */
typedef struct ff_sampling {
    /* weights: [count] sums up to each place; classes: [count + 1]; shares: as above */
    const uint64_t *table;
    uint64_t count; /* of places with weights, of classes, or of sets */
    uint64_t seed, batch;
    uint64_t distinct;    /* with FF_SAMPLING_DISTINCT: the samples that an epoch has */
    uint64_t units, unit; /* with shares */
    uint32_t repeats;     /* 0 and 1: none */
    uint32_t per_class;
    uint32_t stages; /* with shares */
    uint32_t listed; /* not 0: the selection has a number several times */
    ff_sampling_kind kind;
} ff_sampling;

/* Numbers in the table. */
FF_HD uint64_t ff_sampling_table_count(const ff_sampling *sampling) {
    const uint64_t count = sampling->count;
    if (sampling->kind == FF_SAMPLING_SHARES)
        return count + 1 + sampling->stages * (1 + 2 * (count + 1));
    return sampling->kind == FF_SAMPLING_CLASSES ? count + 1 : count;
}

/* Whether a sample may come several times in an epoch. */
FF_HD int ff_sampling_again(const ff_sampling *sampling) {
    const int once = sampling->kind == FF_SAMPLING_ORDER || sampling->kind == FF_SAMPLING_DISTINCT;
    return !once || sampling->repeats > 1 || sampling->listed;
}

#define FF_VIEWS_MOST 64u

/* The index by which the augmentation of view `view` of `sample` at `position` is drawn. again: as
 * above. */
FF_HD uint64_t ff_sampling_index(int again, uint64_t sample, uint64_t position, uint32_t view) {
    return (again ? UINT64_C(1) << 63 | position : sample) | (uint64_t)view << 56;
}

/* floor(a b / 2^64). */
FF_HD uint64_t ff_sampling_high(uint64_t a, uint64_t b) {
    const uint64_t low = (a & 0xffffffffu) * (b & 0xffffffffu);
    const uint64_t left = (a >> 32) * (b & 0xffffffffu) + (low >> 32);
    const uint64_t right = (a & 0xffffffffu) * (b >> 32) + (left & 0xffffffffu);
    return (a >> 32) * (b >> 32) + (left >> 32) + (right >> 32);
}

/* floor(a b / 2^64) with a = the first two words. */
FF_HD uint64_t ff_sampling_below(ff_random r, uint64_t b) {
    return ff_sampling_high((uint64_t)r.word[0] << 32 | r.word[1], b);
}

FF_HD uint64_t ff_sampling_weighted(const ff_sampling *sampling, uint32_t epoch, uint64_t draw) {
    const ff_random r =
        ff_philox_draw(sampling->seed, FF_DOMAIN_SAMPLE, epoch, draw, FF_BLOCK_SAMPLE);
    const uint64_t x = ff_sampling_below(r, sampling->table[sampling->count - 1]);
    uint64_t first = 0, last = sampling->count - 1;
    while (first < last) {
        const uint64_t middle = first + (last - first) / 2;
        if (sampling->table[middle] > x)
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}

/* Whether the first of two halves has the one chosen place that is left. f and g: what the halves
 * have in addition to whole samples of `unit`. */
FF_HD int ff_sampling_first_half(ff_random r, uint64_t f, uint64_t g, uint64_t unit) {
    if (f + g < unit) return ff_sampling_below(r, f + g) < f;
    return ff_sampling_below(r, 2 * unit - f - g) < unit - g;
}

FF_HD uint64_t ff_sampling_distinct(const ff_sampling *sampling, uint32_t epoch, uint64_t draw) {
    const uint64_t unit = sampling->table[sampling->count - 1] / sampling->distinct;
    ff_permutation permutation;
    ff_permutation_init(&permutation, sampling->distinct, sampling->seed, epoch, 3);
    uint64_t number = ff_permutation_at(&permutation, draw, 0); /* among the chosen ones of: */
    uint64_t first = 0, end = sampling->count, chosen = sampling->distinct;
    while (end - first > 1) {
        const uint64_t middle = first + (end - first) / 2;
        const uint64_t low = first ? sampling->table[first - 1] : 0;
        const uint64_t left = sampling->table[middle - 1] - low;
        const uint64_t right = sampling->table[end - 1] - sampling->table[middle - 1];
        const uint64_t more = chosen - left / unit - right / unit; /* 0, 1 or 2 */
        uint64_t here = left / unit + more / 2;
        if (more == 1)
            here += (uint64_t)ff_sampling_first_half(
                ff_philox_draw(sampling->seed, FF_DOMAIN_SAMPLE, epoch, middle, FF_BLOCK_SPLIT),
                left % unit, right % unit, unit);
        if (number < here) {
            end = middle;
            chosen = here;
        } else {
            first = middle;
            number -= here;
            chosen -= here;
        }
    }
    return first;
}

FF_HD uint64_t ff_sampling_of_class(const ff_sampling *sampling, uint32_t epoch,
                                    uint64_t position) {
    const uint64_t batch = position / sampling->batch, row = position % sampling->batch;
    ff_permutation permutation;
    ff_permutation_init(&permutation, sampling->count, sampling->seed, epoch, 2 * batch + 4);
    const uint64_t class_number = ff_permutation_at(&permutation, row / sampling->per_class, 0);
    const uint64_t begin = sampling->table[class_number];
    const uint64_t size = sampling->table[class_number + 1] - begin;
    ff_permutation_init(&permutation, size, sampling->seed, epoch, 2 * batch + 5);
    return begin + ff_permutation_at(&permutation, row % sampling->per_class % size,
                                     ff_order_mix((uint32_t)class_number + 1));
}

/* cut[k]; q and t as above. */
FF_HD uint64_t ff_sampling_cut(uint64_t q, uint64_t t, uint64_t turn) {
    return q + (turn >= t);
}

/* The sum of cut[k] over all turns below `turn`. */
FF_HD uint64_t ff_sampling_before(uint64_t q, uint64_t t, uint64_t turn) {
    return turn * q + (turn > t ? turn - t : 0);
}

FF_HD uint64_t ff_sampling_shared(const ff_sampling *sampling, const ff_order *order,
                                  uint32_t epoch, uint64_t draw) {
    const uint64_t ends = sampling->count + 1, unit = draw / sampling->unit;
    const uint64_t *begin = sampling->table, *stage = begin + ends;
    for (uint32_t i = 1; i < sampling->stages && stage[1 + 2 * ends] <= epoch; i++)
        stage += 1 + 2 * ends;
    const uint64_t *q = stage + 1, *t = q + ends;
    ff_permutation permutation = order->outer;
    ff_permutation_resize(&permutation, sampling->units);
    const uint64_t turn = ff_permutation_at(&permutation, unit, 0);
    ff_permutation_resize(&permutation, sampling->unit);
    const uint64_t slot = ff_permutation_at(&permutation, draw % sampling->unit,
                                            ff_order_mix(2 * (uint32_t)unit + 1));
    uint64_t set = 0;
    while (slot >= ff_sampling_cut(q[set + 1], t[set + 1], turn)) set++;
    const uint64_t rank = ff_sampling_before(q[set + 1], t[set + 1], turn) -
                          ff_sampling_before(q[set], t[set], turn) + slot -
                          ff_sampling_cut(q[set], t[set], turn);
    const uint64_t size = begin[set + 1] - begin[set], again = rank / size;
    ff_permutation_resize(&permutation, size);
    return begin[set] +
           ff_permutation_at(&permutation, rank % size,
                             ff_order_mix(2 * (uint32_t)(again * sampling->count + set) + 2));
}

/* The place at `position` of the epoch of `order`. */
FF_HD uint64_t ff_sampling_at(const ff_sampling *sampling, const ff_order *order, uint32_t epoch,
                              uint64_t position) {
    if (sampling->kind == FF_SAMPLING_CLASSES)
        return ff_sampling_of_class(sampling, epoch, position);
    if (sampling->repeats > 1) {
        const uint64_t each = (sampling->batch - 1) / sampling->repeats + 1;
        position = position / sampling->batch * each + position % sampling->batch % each;
    }
    if (sampling->kind == FF_SAMPLING_WEIGHTS)
        return ff_sampling_weighted(sampling, epoch, position);
    if (sampling->kind == FF_SAMPLING_DISTINCT)
        return ff_sampling_distinct(sampling, epoch, position);
    if (sampling->kind == FF_SAMPLING_SHARES)
        return ff_sampling_shared(sampling, order, epoch, position);
    return ff_order_at(order, position);
}

#endif
