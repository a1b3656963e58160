/* The plain loops of everything except convolution, batch norm and the loss, and the table of all
 * plain loops. */
#include "train/compute/cpu/reference.h"
#include "format/base/memory.h"
#include "loader/sequence/philox.h"
#include "train/compute/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ff_status open_reference(ff_compute **out, const ff_compute_options *options,
                                ff_error *error) {
    ff_compute *compute;
    *out = NULL;
    FF_TRY(ff_alloc(&compute, 1, sizeof *compute, "the compute table", error));
    ff_status status = ff_cpu_begin(compute, &ff_reference_ops, options, error);
    if (status != FF_OK) {
        free(compute);
        return status;
    }
    snprintf(compute->description, sizeof compute->description, "reference loops");
    *out = compute;
    return FF_OK;
}

static void close_reference(ff_compute *compute) {
    ff_compute_end(compute);
    free(compute);
}

static int block_one(const ff_compute *compute, int channels) {
    (void)compute;
    (void)channels;
    return 1;
}

static size_t no_scratch(const ff_compute *compute, const ff_tensor *shape) {
    (void)compute;
    (void)shape;
    return 0;
}

/* ---- pooling ---- */

/* Window (p, q) covers `rows` x `columns` places, padding included, from row h and column w. */
typedef struct window {
    int h, w, rows, columns;
} window;

static window window_at(const ff_pool *pool, int p, int q) {
    const ff_tensor *in = &pool->input, *out = &pool->output;
    if (!pool->adaptive)
        return (window){p * pool->stride - pool->pad, q * pool->stride - pool->pad, pool->kernel_h,
                        pool->kernel_w};
    const int h = p * in->h / out->h, w = q * in->w / out->w;
    return (window){h, w, ((p + 1) * in->h + out->h - 1) / out->h - h,
                    ((q + 1) * in->w + out->w - 1) / out->w - w};
}

static float pool_window(const ff_pool *pool, const float *x, int n, int c, int p, int q,
                         uint8_t *index) {
    double sum = 0;
    float best = -INFINITY;
    int place = -1;
    const window at = window_at(pool, p, q);
    for (int r = 0; r < at.rows; r++)
        for (int s = 0; s < at.columns; s++) {
            int h = at.h + r, w = at.w + s;
            if (h < 0 || h >= pool->input.h || w < 0 || w >= pool->input.w) continue;
            float value = x[ff_tensor_at(&pool->input, n, c, h, w)];
            sum += (double)value;
            if (place < 0 || value > best || isnan(value)) {
                best = value;
                place = r * pool->kernel_w + s;
            }
        }
    if (index) *index = (uint8_t)place;
    return pool->max ? best : (float)(sum / (at.rows * at.columns));
}

static void pool_forward(ff_compute *compute, const ff_pool *pool, const void *x_memory,
                         void *y_memory, uint8_t *index) {
    const float *x = x_memory;
    float *y = y_memory;
    const ff_tensor *t = &pool->output;
    const int channels = ff_tensor_padded_channels(t);
#pragma omp parallel for num_threads(compute->threads)
    for (int n = 0; n < t->n; n++)
        for (int c = 0; c < channels; c++)
            for (int p = 0; p < t->h; p++)
                for (int q = 0; q < t->w; q++) {
                    size_t at = ff_tensor_at(t, n, c, p, q);
                    y[at] =
                        pool_window(pool, x, n, c, p, q, pool->max && index ? index + at : NULL);
                }
}

static void unpool_window(const ff_pool *pool, float dy, int place, float *dx, int n, int c, int p,
                          int q) {
    const window at = window_at(pool, p, q);
    float share = dy / (float)(at.rows * at.columns);
    for (int r = 0; r < at.rows; r++)
        for (int s = 0; s < at.columns; s++) {
            int h = at.h + r, w = at.w + s;
            if (h < 0 || h >= pool->input.h || w < 0 || w >= pool->input.w) continue;
            float *to = dx + ff_tensor_at(&pool->input, n, c, h, w);
            if (!pool->max) *to += share;
            if (pool->max && place == r * pool->kernel_w + s) *to += dy;
        }
}

static void pool_backward(ff_compute *compute, const ff_pool *pool, const void *dy_memory,
                          const uint8_t *index, void *dx_memory) {
    const float *dy = dy_memory;
    float *dx = dx_memory;
    const ff_tensor *t = &pool->output;
    const int channels = ff_tensor_padded_channels(t);
    const size_t sample = ff_tensor_sample(&pool->input);
#pragma omp parallel for num_threads(compute->threads)
    for (int n = 0; n < t->n; n++) {
        memset(dx + n * sample, 0, sample * sizeof *dx);
        for (int c = 0; c < channels; c++)
            for (int p = 0; p < t->h; p++)
                for (int q = 0; q < t->w; q++) {
                    size_t at = ff_tensor_at(t, n, c, p, q);
                    unpool_window(pool, dy[at], pool->max ? index[at] : 0, dx, n, c, p, q);
                }
    }
}

/* ---- linear ---- */

static void linear_forward(ff_compute *compute, const ff_linear *linear, const void *x_memory,
                           const void *w_memory, const float *bias, void *y_memory) {
    const float *x = x_memory, *w = w_memory;
    float *y = y_memory;
    const size_t inputs = ff_tensor_sample(&linear->input);
#pragma omp parallel for num_threads(compute->threads)
    for (int n = 0; n < linear->input.n; n++)
        for (int o = 0; o < linear->outputs; o++) {
            double sum = 0;
            for (size_t k = 0; k < inputs; k++)
                sum += (double)x[n * inputs + k] * (double)w[o * inputs + k];
            sum *= (double)linear->scale;
            y[(size_t)n * linear->outputs + o] = (float)(sum + (bias ? (double)bias[o] : 0));
        }
}

static void linear_backward(ff_compute *compute, const ff_linear *linear, const void *x_memory,
                            const void *w_memory, const void *dy_memory, void *dx_memory,
                            void *dw_memory, float *dbias, void *scratch) {
    (void)scratch;
    const float *x = x_memory, *w = w_memory, *dy = dy_memory;
    float *dx = dx_memory, *dw = dw_memory;
    const size_t inputs = ff_tensor_sample(&linear->input);
    const size_t outputs = (size_t)linear->outputs;
    const int batch = linear->input.n;
#pragma omp parallel for num_threads(compute->threads)
    for (size_t o = 0; o < outputs; o++) {
        double sum = 0;
        for (int n = 0; n < batch; n++) sum += (double)dy[n * outputs + o];
        if (dbias) dbias[o] = (float)sum;
        for (size_t k = 0; dw && k < inputs; k++) {
            sum = 0;
            for (int n = 0; n < batch; n++)
                sum += (double)dy[n * outputs + o] * (double)x[n * inputs + k];
            dw[o * inputs + k] = (float)(sum * (double)linear->scale);
        }
    }
    if (!dx) return;
#pragma omp parallel for num_threads(compute->threads)
    for (int n = 0; n < batch; n++)
        for (size_t k = 0; k < inputs; k++) {
            double sum = 0;
            for (size_t o = 0; o < outputs; o++)
                sum += (double)dy[n * outputs + o] * (double)w[o * inputs + k];
            dx[n * inputs + k] = (float)(sum * (double)linear->scale);
        }
}

/* ---- elementwise ---- */

static double gelu(double z) {
    return z * 0.5 * (1 + erf(z * 0.70710678118654752440));
}

static double gelu_slope(double z) {
    return 0.5 * (1 + erf(z * 0.70710678118654752440)) +
           z * 0.39894228040143267794 * exp(-0.5 * z * z);
}

float ff_reference_activate(ff_activation activation, float z) {
    if (activation == FF_ACTIVATION_RELU) return z < 0 ? 0 : z; /* NaN passes, as in torch */
    if (activation == FF_ACTIVATION_RELU6) return z < 0 ? 0 : z > 6 ? 6 : z;
    if (activation == FF_ACTIVATION_GELU) return (float)gelu((double)z);
    return z;
}

float ff_reference_activate_backward(ff_activation activation, float seen, float g) {
    if (activation == FF_ACTIVATION_RELU) return seen > 0 ? g : 0;
    if (activation == FF_ACTIVATION_RELU6) return seen > 0 && seen < 6 ? g : 0;
    if (activation == FF_ACTIVATION_GELU) return (float)((double)g * gelu_slope((double)seen));
    return g;
}

static void activation_forward(ff_compute *compute, ff_activation activation, size_t count,
                               const void *x_memory, void *y_memory) {
    const float *x = x_memory;
    float *y = y_memory;
#pragma omp parallel for num_threads(compute->threads)
    for (size_t i = 0; i < count; i++) y[i] = ff_reference_activate(activation, x[i]);
}

static void activation_backward(ff_compute *compute, ff_activation activation, size_t count,
                                const void *seen_memory, const void *dy_memory, void *dx_memory) {
    const float *seen = seen_memory, *dy = dy_memory;
    float *dx = dx_memory;
#pragma omp parallel for num_threads(compute->threads)
    for (size_t i = 0; i < count; i++)
        dx[i] = ff_reference_activate_backward(activation, seen[i], dy[i]);
}

static void add(ff_compute *compute, size_t count, const void *a_memory, const void *b_memory,
                void *to_memory) {
    const float *a = a_memory, *b = b_memory;
    float *to = to_memory;
#pragma omp parallel for num_threads(compute->threads)
    for (size_t i = 0; i < count; i++) to[i] = a[i] + b[i];
}

static void dropout(ff_compute *compute, const ff_dropout *dropout, const void *x_memory,
                    void *y_memory) {
    const float *x = x_memory;
    float *y = y_memory;
    const ff_tensor *t = &dropout->shape;
    const uint32_t step = (uint32_t)*dropout->step;
    const uint64_t rows = dropout->rows ? dropout->rows : (uint64_t)t->n;
    const uint64_t before = (dropout->part ? *dropout->part * rows : 0) + dropout->first_row;
    const float threshold = (float)dropout->probability;
    const float scale = (float)(1.0 / (1.0 - dropout->probability));
    /* in place, the padding is already zero */
    if (y != x && t->c % t->block) memset(y, 0, ff_tensor_count(t) * sizeof *y);
#pragma omp parallel for num_threads(compute->threads)
    for (int n = 0; n < t->n; n++) {
        uint64_t element = (before + (uint64_t)n) * t->c * t->h * t->w, drawn = UINT64_MAX;
        ff_random random = {{0}};
        for (int c = 0; c < t->c; c++)
            for (int h = 0; h < t->h; h++)
                for (int w = 0; w < t->w; w++, element++) {
                    size_t at = ff_tensor_at(t, n, c, h, w);
                    if (element / 4 != drawn) {
                        drawn = element / 4;
                        random = ff_philox_draw(dropout->seed, FF_DOMAIN_DROPOUT, step, drawn,
                                                dropout->layer);
                    }
                    bool keep = ff_random_unit(random.word[element % 4]) >= threshold;
                    y[at] = keep ? x[at] * scale : 0;
                }
    }
}

/* ---- views ---- */

/* Reflects `at` into [0, size). */
static int reflected(int at, int size) {
    if (at < 0) at = -at;
    return at < size ? at : 2 * (size - 1) - at;
}

static void view(ff_compute *compute, const ff_image_view *view, const void *from, void *to) {
    const ff_tensor *t = &view->shape;
    const float *x = from;
    float *y = to;
    const int channels = ff_tensor_padded_channels(t);
#pragma omp parallel for num_threads(compute->threads)
    for (int n = 0; n < t->n; n++)
        for (int c = 0; c < channels; c++)
            for (int i = 0; i < t->h; i++)
                for (int j = 0; j < t->w; j++) {
                    int row = reflected(i + view->down, t->h);
                    int column = reflected((view->mirror ? t->w - 1 - j : j) + view->right, t->w);
                    y[ff_tensor_at(t, n, c, i, j)] = x[ff_tensor_at(t, n, c, row, column)];
                }
}

static void weigh(ff_compute *compute, size_t count, float weight, bool first, const float *x,
                  float *to) {
    (void)compute;
    for (size_t i = 0; i < count; i++) to[i] = (first ? 0 : to[i]) + weight * x[i];
}

static void cast(ff_compute *compute, size_t count, float scale, const void *from,
                 ff_dtype from_dtype, void *to, ff_dtype to_dtype) {
    enum { SOME = 1024 };
#pragma omp parallel for num_threads(compute->threads)
    for (size_t at = 0; at < count; at += SOME) {
        float values[SOME];
        const size_t n = count - at < SOME ? count - at : SOME;
        ff_convert(values, FF_F32, (const char *)from + at * ff_dtype_bytes(from_dtype), from_dtype,
                   n);
        for (size_t i = 0; i < n; i++) values[i] *= scale;
        ff_convert((char *)to + at * ff_dtype_bytes(to_dtype), to_dtype, values, FF_F32, n);
    }
}

/* ---- the update ---- */

static void product(void *context, bool transposed, size_t m, size_t n, size_t k, float alpha,
                    const float *a, const float *b, float beta, float *c) {
    const ff_compute *compute = context;
#pragma omp parallel for num_threads(compute->threads)
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t l = 0; l < k; l++)
                sum += (double)a[i * k + l] * (double)b[transposed ? j * k + l : l * n + j];
            double kept = beta != 0 ? (double)beta * (double)c[i * n + j] : 0;
            c[i * n + j] = (float)((double)alpha * sum + kept);
        }
}

static ff_status update_create(ff_compute *compute, const ff_update_spec *spec,
                               ff_prepared_update **update, ff_error *error) {
    return ff_cpu_update_create(compute, spec, product, update, error);
}

const ff_compute_ops ff_reference_ops = {
    .name = "reference",
    .allows = ff_cpu_allows,
    .open = open_reference,
    .close = close_reference,
    .channel_block = block_one,
    .input_block = block_one,
    .row_block = block_one,
    .conv_create = ff_reference_conv_create,
    .conv_destroy = ff_reference_conv_destroy,
    .conv_import = ff_reference_conv_import,
    .conv_export = ff_reference_conv_export,
    .conv_forward = ff_reference_conv_forward,
    .conv_backward_data = ff_reference_conv_backward_data,
    .conv_backward_weights = ff_reference_conv_backward_weights,
    .norm_scratch = no_scratch,
    .norm_train = ff_reference_norm_train,
    .norm_evaluate = ff_reference_norm_evaluate,
    .norm_backward = ff_reference_norm_backward,
    .pool_forward = pool_forward,
    .pool_backward = pool_backward,
    .linear_forward = linear_forward,
    .linear_backward = linear_backward,
    .activation_forward = activation_forward,
    .activation_backward = activation_backward,
    .add = add,
    .dropout = dropout,
    .loss_scratch = ff_reference_loss_scratch,
    .loss = ff_reference_loss,
    .view = view,
    .weigh = weigh,
    .cast = cast,
    .update_create = update_create,
    .update_destroy = ff_cpu_update_destroy,
    .update_run = ff_cpu_update_run,
    .sum_gradients = ff_cpu_sum_gradients,
    .outcome_add = ff_cpu_outcome_add,
    .outcome_join = ff_cpu_outcome_join,
};
