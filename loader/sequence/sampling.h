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
 * Classes: each batch has classes drawn without replacement, and per_class samples of each class,
 * different ones if the class has enough. Class j of batch b is value j of the permutation of all
 * classes with which = 2 b + 4. Sample k of class c is value k mod size of the permutation of its
 * samples with which = 2 b + 5 and tweak F(c + 1). Class c has the places [table[c], table[c + 1]).
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
} ff_sampling_kind;

/* All zero: the order's places, each once. */
typedef struct ff_sampling {
    const uint64_t *table; /* weights: [count] sums up to each place; classes: [count + 1] */
    uint64_t count;        /* of places with weights, or of classes */
    uint64_t seed, batch;
    uint32_t repeats; /* 0 and 1: none */
    uint32_t per_class;
    uint32_t listed; /* not 0: the selection has a number several times */
    ff_sampling_kind kind;
} ff_sampling;

/* Whether a sample may come several times in an epoch. */
FF_HD int ff_sampling_again(const ff_sampling *sampling) {
    return sampling->kind != FF_SAMPLING_ORDER || sampling->repeats > 1 || sampling->listed;
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

FF_HD uint64_t ff_sampling_weighted(const ff_sampling *sampling, uint32_t epoch, uint64_t draw) {
    const ff_random r =
        ff_philox_draw(sampling->seed, FF_DOMAIN_SAMPLE, epoch, draw, FF_BLOCK_SAMPLE);
    const uint64_t x = ff_sampling_high((uint64_t)r.word[0] << 32 | r.word[1],
                                        sampling->table[sampling->count - 1]);
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
    return ff_order_at(order, position);
}

#endif
