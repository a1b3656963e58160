/* Batch norm in plain loops, sums in double. Formulas: compute.h. */
#include "train/compute/cpu/cpu.h"
#include "train/compute/cpu/reference.h"

#include <math.h>

/* The offset in floats of pixel k of channel c, counted over all samples in the order n, h, w. */
static size_t place(const ff_tensor *t, int c, size_t k) {
    size_t pixels = (size_t)t->h * t->w;
    size_t plane = k / pixels * ff_tensor_blocks(t) + c / t->block;
    return (plane * pixels + k % pixels) * t->block + c % t->block;
}

static size_t values_a_channel(const ff_tensor *t) {
    return (size_t)t->n * t->h * t->w;
}

/* The two roundings here are the same in every pass and table, so that a ReLU's mask can be
 * computed again from x. */
static void scale_shift(const ff_norm *norm, int c, float mean, float inv_std, float *scale,
                        float *shift) {
    *scale = norm->gamma[c] * inv_std;
    *shift = norm->beta[c] - mean * *scale;
}

static void apply(ff_compute *compute, const ff_norm *norm, bool training) {
    const ff_tensor *t = &norm->shape;
    const size_t m = values_a_channel(t);
    const float *x = norm->x, *residual = norm->residual;
    float *to = norm->y;
#pragma omp parallel for num_threads(compute->threads)
    for (int c = 0; c < ff_tensor_padded_channels(t); c++) {
        float mean = training ? norm->mean[c] : norm->running_mean[c];
        float inv_std =
            training ? norm->inv_std[c] : 1.0f / sqrtf(norm->running_var[c] + norm->epsilon);
        float scale, shift;
        scale_shift(norm, c, mean, inv_std, &scale, &shift);
        for (size_t k = 0; k < m; k++) {
            size_t at = place(t, c, k);
            float y = x[at] * scale + shift;
            if (residual) y += residual[at];
            to[at] = ff_reference_activate(norm->activation, y);
        }
    }
}

static void finish(const ff_norm *norm, int c, ff_norm_moments of) {
    const double variance = of.squares / of.m, keep = 1.0 - (double)norm->momentum;
    const double take = (double)norm->momentum, unbiased = of.squares / (of.m > 1 ? of.m - 1 : 1);
    norm->mean[c] = (float)of.mean;
    norm->inv_std[c] = (float)(1.0 / sqrt(variance + (double)norm->epsilon));
    norm->running_mean[c] = (float)(keep * (double)norm->running_mean[c] + take * of.mean);
    norm->running_var[c] = (float)(keep * (double)norm->running_var[c] + take * unbiased);
}

void ff_norm_take(const ff_norm *norm, int c, ff_norm_moments own) {
    if (norm->ranks.count)
        ff_norm_tell(norm, c, own.mean, own.squares);
    else
        finish(norm, c, own);
}

void ff_norm_join(ff_compute *compute, const ff_norm *norm) {
    ff_compute_gather(compute, norm);
    for (int c = 0; c < ff_tensor_padded_channels(&norm->shape); c++)
        finish(norm, c, ff_norm_join_moments(norm, c));
}

void ff_reference_norm_train(ff_compute *compute, const ff_norm *norm, float *scratch) {
    (void)scratch;
    const ff_tensor *t = &norm->shape;
    const size_t m = values_a_channel(t);
    const float *x = norm->x;
#pragma omp parallel for num_threads(compute->threads)
    for (int c = 0; c < ff_tensor_padded_channels(t); c++) {
        if (norm->held) {
            norm->mean[c] = norm->running_mean[c];
            norm->inv_std[c] = 1.0f / sqrtf(norm->running_var[c] + norm->epsilon);
            continue;
        }
        double sum = 0, squares = 0;
        for (size_t k = 0; k < m; k++) sum += (double)x[place(t, c, k)];
        double mean = sum / (double)m;
        for (size_t k = 0; k < m; k++) {
            double centred = (double)x[place(t, c, k)] - mean;
            squares += centred * centred;
        }
        ff_norm_take(norm, c, (ff_norm_moments){(double)m, mean, squares});
    }
    if (norm->ranks.count) ff_norm_join(compute, norm);
    apply(compute, norm, true);
}

void ff_reference_norm_evaluate(ff_compute *compute, const ff_norm *norm, float *scratch) {
    (void)scratch;
    apply(compute, norm, false);
}

/* A channel of a backward pass. */
typedef struct backward_channel {
    const ff_norm_backward *norm;
    int c;
    float scale, shift;
} backward_channel;

static backward_channel channel_of(const ff_norm_backward *norm, int c) {
    backward_channel channel = {.norm = norm, .c = c};
    const ff_norm *forward = &norm->forward;
    scale_shift(forward, c, forward->mean[c], forward->inv_std[c], &channel.scale, &channel.shift);
    return channel;
}

/* The gradient after the activation, and the normalized x, of the element at `at`. */
static float gradient_at(const backward_channel *channel, size_t at, double *normal) {
    const ff_norm *forward = &channel->norm->forward;
    const float *xs = forward->x, *ys = forward->y, *dy = channel->norm->dy;
    const float *dy2 = channel->norm->dy2;
    const bool sees_y = forward->residual && ff_activation_sees_output(forward->activation);
    const float x = xs[at], z = x * channel->scale + channel->shift;
    const double mean = (double)forward->mean[channel->c];
    *normal = ((double)x - mean) * (double)forward->inv_std[channel->c];
    /* without a residual, ReLU's mask is computed from its input, as in all tables */
    return ff_reference_activate_backward(forward->activation, sees_y ? ys[at] : z,
                                          dy2 ? dy[at] + dy2[at] : dy[at]);
}

static ff_norm_sums sums_of(const backward_channel *channel) {
    const ff_tensor *t = &channel->norm->forward.shape;
    const size_t m = values_a_channel(t);
    ff_norm_sums sums = {(double)m, 0, 0};
    for (size_t k = 0; k < m; k++) {
        double normal, g = (double)gradient_at(channel, place(t, channel->c, k), &normal);
        sums.sum += g;
        sums.products += g * normal;
    }
    return sums;
}

/* Held statistics do not depend on x. */
static void write_gradient(const backward_channel *channel, ff_norm_sums sums) {
    const ff_norm *forward = &channel->norm->forward;
    const ff_tensor *t = &forward->shape;
    const double over = forward->held ? INFINITY : sums.m;
    float *dx = channel->norm->dx, *dresidual = channel->norm->dresidual;
    for (size_t k = 0; k < values_a_channel(t); k++) {
        const size_t at = place(t, channel->c, k);
        double normal;
        float g = gradient_at(channel, at, &normal);
        double inner = (double)g - sums.sum / over - normal * sums.products / over;
        /* dx or dresidual may be dy: both are written after dy is read */
        if (dresidual) dresidual[at] = g;
        dx[at] = (float)((double)channel->scale * inner);
    }
}

void ff_reference_norm_backward(ff_compute *compute, const ff_norm_backward *norm, float *scratch) {
    (void)scratch;
    const ff_norm *forward = &norm->forward;
    const int channels = ff_tensor_padded_channels(&forward->shape);
#pragma omp parallel for num_threads(compute->threads)
    for (int c = 0; c < channels; c++) {
        const backward_channel channel = channel_of(norm, c);
        const ff_norm_sums sums = sums_of(&channel);
        if (norm->dgamma) norm->dgamma[c] = (float)sums.products;
        if (norm->dbeta) norm->dbeta[c] = (float)sums.sum;
        if (forward->ranks.count)
            ff_norm_tell(forward, c, sums.sum, sums.products);
        else
            write_gradient(&channel, sums);
    }
    if (!forward->ranks.count) return;
    ff_compute_gather(compute, forward);
#pragma omp parallel for num_threads(compute->threads)
    for (int c = 0; c < channels; c++) {
        const backward_channel channel = channel_of(norm, c);
        write_gradient(&channel, ff_norm_join_sums(forward, c));
    }
}
