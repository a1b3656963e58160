/* Which loss scale f16 gradients allow: trains a recipe on the CPU in f32 and looks at every
 * gradient that a GPU keeps in f16 (those of activations when they are computed, and those of
 * weights).
 *
 *   gradient_range SET [RECIPE [STEPS [SCALE [BATCH]]]]      cifar-speed, 200 steps, 128
 *
 * Prints a line of JSON a step: the largest scale at which none would be infinite, and, at SCALE,
 * the shares of nonzero values that f16 flushes to zero or stores with fewer bits; the last line
 * has the smallest scale and the mean shares. Exit 1 if a gradient would be infinite at SCALE. */
#include "format/base/memory.h"
#include "tests/unit/trainer_options.h"
#include "train/net/store.h"
#include "train/net/whitening.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The largest f16 and what rounds past it; half the smallest one; the smallest with all bits. */
#define MOST     65520.0
#define FLUSHED  0x1p-25
#define SMALLEST 0x1p-14

typedef struct range {
    double largest;
    uint64_t count, flushed, subnormal; /* of the values that are not zero */
} range;

static const ff_compute_ops *own; /* that computes */
static double scale = 128;
static range activations, weights;

static void look(range *r, const float *values, size_t count) {
    double largest = 0;
    uint64_t all = 0, flushed = 0, subnormal = 0;
#pragma omp parallel for reduction(max : largest) reduction(+ : all, flushed, subnormal)
    for (size_t i = 0; i < count; i++) {
        const double size = fabs((double)values[i]);
        if (size == 0) continue;
        all++;
        flushed += size * scale <= FLUSHED;
        subnormal += size * scale > FLUSHED && size * scale < SMALLEST;
        /* NaN and infinite are larger than all */
        if (!(size <= largest)) largest = isfinite(size) ? size : INFINITY;
    }
    r->largest = fmax(r->largest, largest);
    r->count += all, r->flushed += flushed, r->subnormal += subnormal;
}

static void look_at(const void *values, const ff_tensor *shape) {
    if (values) look(&activations, values, ff_tensor_count(shape));
}

/* ---- the table's entries that make gradients, and a look at what they made ---- */

static void conv_backward_data(ff_compute *compute, ff_conv *conv, const void *dy, const void *w,
                               void *dx, void *scratch) {
    own->conv_backward_data(compute, conv, dy, w, dx, scratch);
    look_at(dx, &conv->shape.input);
}

static void norm_backward(ff_compute *compute, const ff_norm_backward *norm, float *scratch) {
    own->norm_backward(compute, norm, scratch);
    look_at(norm->dx, &norm->forward.shape);
}

static void pool_backward(ff_compute *compute, const ff_pool *pool, const void *dy,
                          const uint8_t *index, void *dx) {
    own->pool_backward(compute, pool, dy, index, dx);
    look_at(dx, &pool->input);
}

static void activation_backward(ff_compute *compute, ff_activation activation, size_t count,
                                const void *seen, const void *dy, void *dx) {
    own->activation_backward(compute, activation, count, seen, dy, dx);
    look(&activations, dx, count);
}

static void linear_backward(ff_compute *compute, const ff_linear *linear, const void *x,
                            const void *w, const void *dy, void *dx, void *dw, float *dbias,
                            void *scratch) {
    own->linear_backward(compute, linear, x, w, dy, dx, dw, dbias, scratch);
    look_at(dx, &linear->input);
}

static void loss(ff_compute *compute, const ff_loss *arguments) {
    own->loss(compute, arguments);
    if (arguments->gradient)
        look(&activations, arguments->gradient, (size_t)arguments->n * (size_t)arguments->stride);
}

/* ---- steps ---- */

static ff_status take_step(ff_trainer *trainer, double *mean_loss, ff_error *error) {
    ff_feed_batch next;
    const ff_outcome *outcomes;
    uint32_t found = 1;
    activations = weights = (range){0};
    FF_TRY(ff_feed_next(trainer->train_feed, &next, error));
    next.batch.weights = NULL;
    FF_TRY(ff_step_run(trainer->step, trainer->train_plan, &next.batch, error));
    FF_TRY(ff_feed_done(trainer->train_feed, error));
    while (found) {
        FF_TRY(ff_step_outcomes(trainer->step, false, &outcomes, &found, error));
        if (found) *mean_loss = outcomes[0].loss_sum / (double)outcomes[0].count;
    }
    const ff_store *store = ff_model_store(trainer->model);
    look(&weights, (const float *)(const void *)store->gradients, store->weight_count);
    return FF_OK;
}

static double share(uint64_t part, uint64_t of) {
    return of ? (double)part / (double)of : 0;
}

static ff_status measure(ff_trainer *trainer, int64_t steps, bool *held, ff_error *error) {
    range all = {0};
    FF_TRY(ff_whiten(trainer->model, trainer->splits.train,
                     ff_splits_selection(&trainer->splits.train_selected),
                     trainer->splits.val_resize, ff_model_threads(trainer->model), error));
    for (int64_t step = 0; step < steps; step++) {
        double mean_loss = 0;
        FF_TRY(take_step(trainer, &mean_loss, error));
        const double largest = fmax(activations.largest, weights.largest);
        const range both = {largest, activations.count + weights.count,
                            activations.flushed + weights.flushed,
                            activations.subnormal + weights.subnormal};
        printf("{\"step\": %lld, \"loss\": %.4f, \"largest_scale_activations\": %.0f, "
               "\"largest_scale_weights\": %.0f, \"flushed\": %.3g, \"subnormal\": %.3g}\n",
               (long long)step, mean_loss, MOST / activations.largest, MOST / weights.largest,
               share(both.flushed, both.count), share(both.subnormal, both.count));
        fflush(stdout);
        all.largest = fmax(all.largest, largest);
        all.count += both.count, all.flushed += both.flushed, all.subnormal += both.subnormal;
    }
    *held = scale * all.largest < MOST;
    printf("{\"steps\": %lld, \"scale\": %g, \"held\": %s, \"largest_scale\": %.0f, "
           "\"flushed\": %.3g, \"subnormal\": %.3g}\n",
           (long long)steps, scale, *held ? "true" : "false", MOST / all.largest,
           share(all.flushed, all.count), share(all.subnormal, all.count));
    return FF_OK;
}

int main(int argc, char **argv) {
    ff_error failure = {0}, *error = &failure;
    ff_trainer_options options = default_options();
    ff_trainer *trainer = NULL;
    bool held = false;
    if (argc < 2) {
        fprintf(stderr, "usage: gradient_range SET [RECIPE [STEPS [SCALE [BATCH]]]]\n");
        return 2;
    }
    options.data = argv[1];
    options.recipe = argc > 2 ? argv[2] : "cifar-speed";
    const int64_t steps = argc > 3 ? atoll(argv[3]) : 200;
    if (argc > 4) scale = atof(argv[4]);
    if (argc > 5) options.batch = atoll(argv[5]);
    ff_status status = ff_trainer_create(&trainer, &options, error);
    if (status == FF_OK) {
        ff_compute *compute = ff_model_compute(trainer->model);
        own = compute->ops;
        ff_compute_ops watched = *own;
        watched.conv_backward_data = conv_backward_data;
        watched.norm_backward = norm_backward;
        watched.pool_backward = pool_backward;
        watched.activation_backward = activation_backward;
        watched.linear_backward = linear_backward;
        watched.loss = loss;
        compute->ops = &watched;
        status = measure(trainer, steps, &held, error);
        compute->ops = own;
    }
    ff_trainer_destroy(&trainer);
    if (status != FF_OK) fprintf(stderr, "gradient_range: %s\n", error->message);
    return status == FF_OK ? !held : ff_exit_code(error);
}
