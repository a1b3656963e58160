/* Shared by the files of the counting compute table: count.c has the plan's entries, update.c the
 * update's. */
#ifndef FF_TRAIN_COST_COUNT_H
#define FF_TRAIN_COST_COUNT_H

#include "train/cost/cost.h"

typedef struct ff_cost_counter {
    ff_compute base;
    ff_device device;
    ff_compute_watch watch;
    const ff_plan *plan;
    ff_costs *costs;
} ff_cost_counter;

/* Adds a piece to the latest row. The compute keeps the first failure. */
static inline void ff_cost_count(ff_compute *compute, ff_cost_piece one) {
    ff_cost_counter *c = (ff_cost_counter *)compute;
    if (c->base.failure.status != FF_OK) return;
    if (ff_cost_add_piece(c->costs, &one, ff_compute_error(compute)) != FF_OK) return;
}

/* Our own kernels over arrays of `bytes` in total: the first kernel moves the bytes, further ones
 * finish sums. */
static inline void ff_cost_arrays(ff_compute *compute, double bytes, double flops, int nodes) {
    ff_cost_count(compute, (ff_cost_piece){.bytes = bytes, .f32_flops = flops, .nodes = 1});
    if (nodes > 1) ff_cost_count(compute, (ff_cost_piece){.nodes = nodes - 1});
}

/* A matrix product, or a convolution. */
static inline void ff_cost_product(ff_compute *compute, ff_precision precision, double bytes,
                                   double flops) {
    ff_cost_count(
        compute,
        (ff_cost_piece){.bytes = bytes, .matrix_flops = flops, .precision = precision, .nodes = 1});
}

/* In update.c: the table's update_create counts immediately, in the order of cuda/compute_update.c,
 * and returns no update. The second function calls it for all groups of the store. */
ff_status ff_cost_update_create(ff_compute *compute, const ff_update_spec *spec,
                                ff_prepared_update **update, ff_error *error);
FF_MUST_USE ff_status ff_cost_count_update(ff_cost_counter *c, const ff_store *store,
                                           ff_error *error);

#endif
