/* Softmax cross-entropy and binary cross entropy in plain loops. Formulas: compute.h. */
#include "train/compute/cpu/cpu.h"
#include "train/compute/cpu/reference.h"

#include <math.h>

static int64_t label_of(const ff_loss *loss, int n) {
    return loss->label_dtype == FF_I64 ? ((const int64_t *)loss->labels)[n]
                                       : ((const int32_t *)loss->labels)[n];
}

/* The target of a sample: `label` with weight `share`, `other` with the rest. */
typedef struct target {
    int64_t label, other;
    double share;
} target;

static target target_of(const ff_loss *loss, int n) {
    const int64_t label = label_of(loss, n);
    if (!loss->mix || loss->mix[n] == 1.0f) return (target){label, label, 1};
    return (target){label, label_of(loss, n ^ 1), (double)loss->mix[n]};
}

static bool counts(const ff_loss *loss, int n, const target *t) {
    return t->label >= 0 && t->other >= 0 && (!loss->weights || loss->weights[n] != 0);
}

/* Class weights: w[c * step]. */
typedef struct class_weights {
    const float *w;
    int step; /* 0: all are 1 */
    double mean;
} class_weights;

static class_weights weights_of(const ff_loss *loss) {
    static const float one = 1;
    class_weights weights = {loss->class_weights, 1, 0};
    if (!loss->class_weights) return (class_weights){&one, 0, 1};
    for (int c = 0; c < loss->classes; c++) weights.mean += (double)weights.w[c] / loss->classes;
    return weights;
}

/* What a sample adds to the divisor of the mean. */
static double weight_of(const ff_loss *loss, const class_weights *weights, const target *t) {
    const bool counted = loss->mix || loss->form.kind != FF_LOSS_CROSS_ENTROPY;
    return counted ? 1 : (double)weights->w[t->label * weights->step];
}

/* The weight of class c among the labels. */
static double share_of(const target *t, int c) {
    return (c == t->label ? t->share : 0) + (c == t->other ? 1 - t->share : 0);
}

/* The first of the largest logits. */
static int best_of(const float *logits, int classes) {
    int best = 0;
    for (int c = 1; c < classes; c++)
        if (logits[c] > logits[best]) best = c;
    return best;
}

/* A row whose sum is not a number has no prediction. */
static bool is_right(const target *t, int best, double sum) {
    return !isnan(sum) && best == (t->share >= 0.5 ? t->label : t->other);
}

/* A row of the gradient, in the dtype of activations. */
typedef struct gradient_row {
    float *wide; /* NULL: the row is bf16, or there is no gradient */
    uint16_t *narrow;
} gradient_row;

static gradient_row row_of(const ff_compute *compute, const ff_loss *loss, int n) {
    const size_t at = (size_t)n * loss->stride;
    if (!loss->gradient) return (gradient_row){NULL, NULL};
    if (compute->dtype == FF_BF16) return (gradient_row){NULL, (uint16_t *)loss->gradient + at};
    return (gradient_row){(float *)loss->gradient + at, NULL};
}

static void put(gradient_row row, int c, float value) {
    if (row.wide) row.wide[c] = value;
    if (row.narrow) row.narrow[c] = ff_bf16_from_f32(value);
}

/* The loss of one sample, and its gradient (times `scale`). */
static double cross_entropy(const ff_loss *loss, const class_weights *weights, int n,
                            const target *t, double scale, gradient_row gradient, bool *correct) {
    const float *logits = loss->logits + (size_t)n * loss->stride;
    const int best = best_of(logits, loss->classes);
    double sum = 0, mean = 0;
    for (int c = 0; c < loss->classes; c++) {
        sum += exp((double)logits[c] - (double)logits[best]);
        mean += (double)weights->w[c * weights->step] * ((double)logits[c] - (double)logits[best]);
    }
    mean /= loss->classes;
    // cppcheck-suppress invalidFunctionArg ; sum is at least exp(0): the largest logit's own term
    double log_sum = log(sum), wanted = (double)weights->w[t->label * weights->step];
    double at_label = wanted * ((double)logits[t->label] - (double)logits[best]);
    if (t->share < 1) {
        const double other = (double)weights->w[t->other * weights->step];
        at_label = t->share * at_label +
                   (1 - t->share) * other * ((double)logits[t->other] - (double)logits[best]);
        wanted = other + t->share * (wanted - other);
    }
    *correct = is_right(t, best, sum);
    double off = loss->smoothing / loss->classes, on = 1.0 - loss->smoothing;
    const double whole = wanted + loss->smoothing * (weights->mean - wanted);
    double best_logit = (double)logits[best]; /* the gradient may overwrite the logits */
    for (int c = 0; loss->gradient && c < loss->classes; c++) {
        double p = exp((double)logits[c] - best_logit) / sum;
        const double w = (double)weights->w[c * weights->step];
        put(gradient, c, (float)(scale * (whole * p - w * off - w * on * share_of(t, c))));
    }
    return on * (wanted * log_sum - at_label) + loss->smoothing * (weights->mean * log_sum - mean);
}

/* The same of binary cross entropy. */
static double binary(const ff_loss *loss, const class_weights *weights, int n, const target *t,
                     double scale, gradient_row gradient, bool *correct) {
    const float *logits = loss->logits + (size_t)n * loss->stride;
    const double each = loss->form.kind == FF_LOSS_BCE ? 1.0 / loss->classes : 1;
    const int best = best_of(logits, loss->classes); /* the gradient may overwrite the logits */
    double sum = 0;
    for (int c = 0; c < loss->classes; c++) {
        const double x = (double)logits[c], w = (double)weights->w[c * weights->step];
        const double wanted = ff_loss_target(loss, share_of(t, c)), e = exp(-fabs(x));
        sum += w * (fmax(x, 0) - x * wanted + log1p(e));
        const double p = (x >= 0 ? 1 : e) / (1 + e);
        put(gradient, c, (float)(scale * each * w * (p - wanted)));
    }
    *correct = is_right(t, best, sum);
    return each * sum;
}

size_t ff_reference_loss_scratch(const ff_compute *compute, int n, int stride) {
    (void)compute;
    (void)stride;
    return (size_t)n * sizeof(double);
}

void ff_reference_loss(ff_compute *compute, const ff_loss *loss) {
    const uint64_t step = loss->control ? loss->control->step : 0;
    ff_outcome *result = &loss->ring[step % loss->ring_size];
    const class_weights weights = weights_of(loss);
    double *losses = loss->scratch;
    *result = (ff_outcome){.step = step, .bad_sample = -1};
    for (int n = 0; n < loss->n; n++) {
        int64_t label = label_of(loss, n);
        if (label < -1 || label >= loss->classes) {
            result->bad_sample = n;
            return;
        }
    }
    for (int n = 0; n < loss->n; n++) {
        const target t = target_of(loss, n);
        if (!counts(loss, n, &t)) continue;
        result->count++;
        result->weight += weight_of(loss, &weights, &t);
    }
    const double divisor = loss->divisor > 0 ? loss->divisor : result->weight;
    const double grown =
        loss->control && compute->dtype != FF_F32 ? (double)loss->control->loss_scale : 1;
    const double scale = divisor > 0 ? grown / divisor : 0;
    int64_t correct_count = 0;
#pragma omp parallel for num_threads(compute->threads) reduction(+ : correct_count)
    for (int n = 0; n < loss->n; n++) {
        const target t = target_of(loss, n);
        const gradient_row gradient = row_of(compute, loss, n);
        if (counts(loss, n, &t)) {
            bool correct;
            if (loss->form.kind == FF_LOSS_CROSS_ENTROPY)
                losses[n] = cross_entropy(loss, &weights, n, &t, scale, gradient, &correct);
            else
                losses[n] = binary(loss, &weights, n, &t, scale, gradient, &correct);
            correct_count += correct;
        } else {
            losses[n] = 0;
            for (int c = 0; c < loss->classes; c++) put(gradient, c, 0);
        }
    }
    result->correct = correct_count;
    for (int n = 0; n < loss->n; n++) result->loss_sum += losses[n];
    if (loss->control && !isfinite(result->loss_sum)) loss->control->halted = 1;
}
