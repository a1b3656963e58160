/* LARS; its defaults are timm's, with the momentum and the decay of the paper. */
#include "train/compute/optimizers/optimizers.h"
#include "train/compute/vector.h"

/* `trust` holds the ratio. */
FF_VECTOR_CLONES
static void span(const ff_factors *factors, const ff_arrays *a) {
    const ff_factors f = *factors;
    float *restrict w = a->value, *restrict m = a->state[0];
    const float *restrict g = a->gradient;
    for (size_t i = 0; i < a->count; i++) ff_lars_element(&f, f.trust, g[i], &w[i], &m[i]);
}

static void update(const ff_factors *factors, const ff_arrays *a) {
    ff_factors f = *factors;
    f.trust = 1;
    if (a->adapts)
        f.trust = ff_lars_ratio(factors, ff_optimizer_sum(factors, a, ff_squares_of_values),
                                ff_optimizer_sum(factors, a, ff_squares_of_gradients));
    ff_optimizer_spans(&f, a, span);
}

const ff_optimizer ff_optimizer_lars = {
    .name = "lars",
    .title = "LARS",
    .states = 1,
    .state_name = {"momentum_buffer"},
    .norms = true,
    .defaults = {.learning_rate = 1,
                 .momentum = 0.9,
                 .weight_decay = 5e-4,
                 .beta1 = FF_UNREAD,
                 .beta2 = FF_UNREAD,
                 .epsilon = 1e-8,
                 .trust = 1e-3},
    .no_decay = "norm,bias",
    .update = update,
};
