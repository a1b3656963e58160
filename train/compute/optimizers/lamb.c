/* LAMB; its defaults are timm's. */
#include "train/compute/optimizers/optimizers.h"
#include "train/compute/vector.h"

FF_VECTOR_CLONES
static void moments(const ff_factors *factors, const ff_arrays *a) {
    const ff_factors f = *factors;
    float *restrict m = a->state[0], *restrict v = a->state[1];
    const float *restrict g = a->gradient;
    for (size_t i = 0; i < a->count; i++) ff_moments_element(&f, g[i], &m[i], &v[i]);
}

FF_VECTOR_CLONES
static double squares_of_updates(const ff_factors *factors, const ff_arrays *a) {
    const ff_factors f = *factors;
    const float *w = a->value, *m = a->state[0], *v = a->state[1];
    double sums[8] = {0}, sum = 0;
    size_t i = 0;
    for (; i + 8 <= a->count; i += 8)
        for (size_t k = 0; k < 8; k++) {
            const double u = (double)ff_lamb_update(&f, w[i + k], m[i + k], v[i + k]);
            sums[k] += u * u;
        }
    for (; i < a->count; i++) {
        const double u = (double)ff_lamb_update(&f, w[i], m[i], v[i]);
        sums[0] += u * u;
    }
    for (int k = 0; k < 8; k++) sum += sums[k];
    return sum;
}

/* f.rate includes the ratio. */
FF_VECTOR_CLONES
static void span(const ff_factors *factors, const ff_arrays *a) {
    const ff_factors f = *factors;
    float *restrict w = a->value;
    const float *restrict m = a->state[0], *restrict v = a->state[1];
    for (size_t i = 0; i < a->count; i++) w[i] -= f.rate * ff_lamb_update(&f, w[i], m[i], v[i]);
}

static void update(const ff_factors *factors, const ff_arrays *a) {
    ff_factors f = *factors;
    ff_arrays first = *a;
    first.working = NULL; /* the values change in the last pass */
    ff_optimizer_spans(&f, &first, moments);
    if (a->adapts)
        f.rate *= ff_lamb_ratio(ff_optimizer_sum(&f, a, ff_squares_of_values),
                                ff_optimizer_sum(&f, a, squares_of_updates));
    ff_optimizer_spans(&f, a, span);
}

const ff_optimizer ff_optimizer_lamb = {
    .name = "lamb",
    .title = "LAMB",
    .states = 2,
    .state_name = {"exp_avg", "exp_avg_sq"},
    .norms = true,
    .defaults = {.learning_rate = 1e-3,
                 .momentum = FF_UNREAD,
                 .weight_decay = 1e-2,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .epsilon = 1e-6,
                 .trust = FF_UNREAD},
    .no_decay = "norm,bias",
    .update = update,
};
