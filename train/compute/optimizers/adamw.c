/* AdamW; its defaults are torch.optim.AdamW's. */
#include "train/compute/optimizers/optimizers.h"
#include "train/compute/vector.h"

FF_VECTOR_CLONES
static void span(const ff_factors *factors, const ff_arrays *a) {
    const ff_factors f = *factors;
    float *restrict w = a->value, *restrict m = a->state[0], *restrict v = a->state[1];
    const float *restrict g = a->gradient;
    for (size_t i = 0; i < a->count; i++) ff_adamw_element(&f, g[i], &w[i], &m[i], &v[i]);
}

static void update(const ff_factors *f, const ff_arrays *a) {
    ff_optimizer_spans(f, a, span);
}

const ff_optimizer ff_optimizer_adamw = {
    .name = "adamw",
    .title = "AdamW",
    .states = 2,
    .state_name = {"exp_avg", "exp_avg_sq"},
    .defaults = {.learning_rate = 1e-3,
                 .momentum = FF_UNREAD,
                 .weight_decay = 1e-2,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .epsilon = 1e-8,
                 .trust = FF_UNREAD},
    .update = update,
};
