/* The plain loops of everything except convolution, batch norm and the loss, and the tables of all
 * plain loops: one for each dtype of activations. */
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
    const ff_dtype dtype = ff_precision_dtype(options->precision);
    ff_status status = ff_cpu_begin(compute, ff_reference_ops_of(dtype), options, error);
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

/* The columns of one row that a pool's gradient is summed over at a time. */
enum { COLUMNS = 64 };

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

/* Reflects `at` into [0, size). */
static int reflected(int at, int size) {
    if (at < 0) at = -at;
    return at < size ? at : 2 * (size - 1) - at;
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

#define LOOPS "train/compute/cpu/reference_loops.inc"
#include "train/compute/cpu/element_variants.inc"
