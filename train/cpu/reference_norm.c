/* Batch norm in plain loops, sums in double. Formulas: compute.h. */
#include "train/cpu/cpu.h"
#include "train/cpu/reference.h"

#include <math.h>

/* Pixel k of all samples in the order n, h, w, of channel c: offset in floats. */
static size_t place(const ff_tensor *t, int c, size_t k) {
    size_t pixels = (size_t)t->h * t->w;
    size_t plane = k / pixels * ff_tensor_blocks(t) + c / t->block;
    return (plane * pixels + k % pixels) * t->block + c % t->block;
}

/* What the sums of a backward pass are divided by: held statistics do not depend on x. */
static double divisor(const ff_norm *norm) {
    return norm->held ? INFINITY : (double)norm->shape.n * norm->shape.h * norm->shape.w;
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
        double variance = squares / (double)m;
        norm->mean[c] = (float)mean;
        norm->inv_std[c] = (float)(1.0 / sqrt(variance + (double)norm->epsilon));
        double keep = 1.0 - (double)norm->momentum, take = (double)norm->momentum;
        double unbiased = m > 1 ? squares / (double)(m - 1) : variance;
        norm->running_mean[c] = (float)(keep * (double)norm->running_mean[c] + take * mean);
        norm->running_var[c] = (float)(keep * (double)norm->running_var[c] + take * unbiased);
    }
    apply(compute, norm, true);
}

void ff_reference_norm_evaluate(ff_compute *compute, const ff_norm *norm, float *scratch) {
    (void)scratch;
    apply(compute, norm, false);
}

void ff_reference_norm_backward(ff_compute *compute, const ff_norm_backward *norm, float *scratch) {
    (void)scratch;
    const ff_norm *forward = &norm->forward;
    const ff_tensor *t = &forward->shape;
    const size_t m = values_a_channel(t);
    const float *xs = forward->x, *ys = forward->y, *dy = norm->dy, *dy2 = norm->dy2;
    float *dx = norm->dx, *dresidual = norm->dresidual;
    const double over = divisor(forward);
    const bool sees_y = forward->residual && ff_activation_sees_output(forward->activation);
#pragma omp parallel for num_threads(compute->threads)
    for (int c = 0; c < ff_tensor_padded_channels(t); c++) {
        float mean = forward->mean[c], inv_std = forward->inv_std[c], scale, shift;
        scale_shift(forward, c, mean, inv_std, &scale, &shift);
        double sum = 0, products = 0;
        for (int pass = 0; pass < 2; pass++)
            for (size_t k = 0; k < m; k++) {
                size_t at = place(t, c, k);
                float x = xs[at], g = dy[at];
                if (dy2) g += dy2[at];
                float z = x * scale + shift;
                /* without a residual, ReLU's mask is computed from its input, as in all tables */
                g = ff_reference_activate_backward(forward->activation, sees_y ? ys[at] : z, g);
                double normal = ((double)x - (double)mean) * (double)inv_std;
                if (pass == 0) {
                    sum += (double)g;
                    products += (double)g * normal;
                } else {
                    double inner = (double)g - sum / over - normal * products / over;
                    /* dx or dresidual may be dy: both are written after dy is read */
                    if (dresidual) dresidual[at] = g;
                    dx[at] = (float)((double)scale * inner);
                }
            }
        if (norm->dgamma) norm->dgamma[c] = (float)products;
        if (norm->dbeta) norm->dbeta[c] = (float)sum;
    }
}
