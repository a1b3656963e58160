/* SGD with momentum. */
#include "train/compute/optimizers/optimizers.h"
#include "train/compute/vector.h"

FF_VECTOR_CLONES
static void span(const ff_factors *factors, const ff_arrays *a) {
    const ff_factors f = *factors;
    float *restrict w = a->value, *restrict m = a->state[0];
    const float *restrict g = a->gradient;
    for (size_t i = 0; i < a->count; i++) ff_sgd_element(&f, g[i], &w[i], &m[i]);
}

static void update(const ff_factors *f, const ff_arrays *a) {
    ff_optimizer_spans(f, a, span);
}

const ff_optimizer ff_optimizer_sgd = {
    .name = "sgd",
    .title = "SGD",
    .states = 1,
    .state_name = {"momentum_buffer"},
    .defaults = {.learning_rate = 0.1,
                 .momentum = 0.9,
                 .weight_decay = 5e-4,
                 .beta1 = FF_UNREAD,
                 .beta2 = FF_UNREAD,
                 .epsilon = FF_UNREAD,
                 .trust = FF_UNREAD},
    .update = update,
};
