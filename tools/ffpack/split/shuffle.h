/* The order of --shuffle SEED, and of --stats-sample, which takes its first items with seed 0. */
#ifndef FF_FFPACK_SHUFFLE_H
#define FF_FFPACK_SHUFFLE_H

#include "loader/sequence/order.h"

/* ff_permutation_at returns the item at a position. The permutation differs from every epoch's of
 * the same seed. */
static inline void ff_shuffle_init(ff_permutation *order, uint64_t count, uint64_t seed) {
    enum { SHUFFLE_PERMUTATION = 16 };
    ff_permutation_init(order, count, seed, 0, SHUFFLE_PERMUTATION);
}

#endif
