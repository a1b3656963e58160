/* Batch norm + add + activation over blocked activations: two passes over memory forward and two
 * backward, each thread on its own planes. The second pass runs in reverse order, because the
 * planes last read are still in cache. Formulas: compute.h. */
#include "train/compute/cpu/fused_norm.h"
#include "train/compute/cpu/cpu.h"
#include "train/compute/cpu/gelu.h"
#include "train/compute/cpu/narrow.h"
#include "train/compute/vector.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* Arguments of the backward kernels for one plane; see fused_norm_kernels.inc. */
typedef struct plane_arguments {
    size_t pixels;
    const void *x, *y, *dy, *dy2;
    void *g, *dx;
    const float *scale, *shift, *mean, *slope, *base; /* of the plane's channels */
    double *sum, *products;
} plane_arguments;

#define KERNELS "train/compute/cpu/fused_norm_kernels.inc"
#include "train/compute/cpu/kernel_variants.inc"

typedef struct kernels {
    void (*statistics)(const void *x, size_t pixels, const float *shift, double *sum,
                       double *squares);
    void (*apply)(const void *x, const void *residual, void *y, size_t pixels, const float *scale,
                  const float *shift, ff_activation activation);
    void (*reduce)(const plane_arguments *arguments, int mask);
    void (*gradient)(const plane_arguments *arguments, int mask);
} kernels;

#define KERNELS_OF(ending)                                                                         \
    { statistics_##ending, apply_##ending, reduce_##ending, gradient_##ending }
static const kernels table[] = FF_KERNEL_TABLE(KERNELS_OF);

/* NULL if there are no kernels for the block. */
static const kernels *kernels_for(const ff_compute *compute, const ff_tensor *t) {
    const int row = ff_kernel_row(compute->dtype, t->block);
    return row < 0 ? NULL : &table[row];
}

/* Scratch: per thread two arrays with a double per channel, then four shared arrays with a float
 * per channel. */
size_t ff_fused_norm_scratch(const ff_compute *compute, const ff_tensor *shape) {
    size_t channels = (size_t)ff_tensor_padded_channels(shape);
    return channels * (4 * (size_t)compute->threads + 4);
}

ff_norm_work ff_norm_work_of(const ff_compute *compute, size_t channels, float *scratch) {
    ff_norm_work work;
    // cppcheck-suppress invalidPointerCast ; scratch is memory for either, 64-byte aligned
    work.sums = (double *)scratch;
    work.scale = scratch + 4 * channels * (size_t)compute->threads;
    work.shift = work.scale + channels;
    work.slope = work.shift + channels;
    work.base = work.slope + channels;
    return work;
}

/* Adds the threads' sums to the first thread's, in order. */
static void combine(const ff_compute *compute, size_t channels, double *sums) {
    for (int t = 1; t < compute->threads; t++)
        for (size_t c = 0; c < 2 * channels; c++) sums[c] += sums[2 * channels * (size_t)t + c];
}

void ff_norm_set_scale(const ff_norm *norm, const ff_norm_work *work) {
    const size_t channels = (size_t)ff_tensor_padded_channels(&norm->shape);
    for (size_t c = 0; c < channels; c++) {
        work->scale[c] = norm->gamma[c] * norm->inv_std[c];
        work->shift[c] = norm->beta[c] - norm->mean[c] * work->scale[c];
    }
}

static void apply_planes(const ff_compute *compute, const ff_norm *norm, const kernels *k,
                         const ff_norm_work *work, size_t from, size_t to) {
    const ff_tensor *t = &norm->shape;
    const size_t pixels = (size_t)t->h * t->w, blocks = (size_t)ff_tensor_blocks(t);
    const size_t plane_bytes = pixels * t->block * compute->element_bytes;
    const char *x = norm->x, *residual = norm->residual;
    char *y = norm->y;
    for (size_t plane = to; plane-- > from;) {
        const size_t at = plane * plane_bytes, c = plane % blocks * t->block;
        k->apply(x + at, residual ? residual + at : NULL, y + at, pixels, work->scale + c,
                 work->shift + c, norm->activation);
    }
}

/* Computes batch statistics, unless they are held, from the sums of x - shift, and the resulting
 * scale and shift. shift is the first pixel of each channel, so that the variance does not cancel
 * against the square of the mean. */
static void finish_statistics(ff_compute *compute, const ff_norm *norm, const ff_norm_work *work) {
    const ff_tensor *t = &norm->shape;
    const size_t channels = (size_t)ff_tensor_padded_channels(t);
    const double m = (double)t->n * t->h * t->w;
    for (size_t c = 0; norm->held && c < channels; c++) {
        norm->mean[c] = norm->running_mean[c];
        norm->inv_std[c] = 1.0f / sqrtf(norm->running_var[c] + norm->epsilon);
    }
    for (size_t c = 0; !norm->held && c < channels; c++) {
        double offset = work->sums[c] / m, squares = work->sums[channels + c];
        double mean = (double)work->shift[c] + offset;
        double centred = squares - m * offset * offset;
        if (centred < 0) centred = 0;
        ff_norm_take(norm, (int)c, (ff_norm_moments){m, mean, centred});
    }
    if (norm->ranks.count) ff_norm_join(compute, norm);
    ff_norm_set_scale(norm, work);
}

void ff_fused_norm_train(ff_compute *compute, const ff_norm *norm, float *scratch) {
    const ff_tensor *t = &norm->shape;
    const kernels *k = kernels_for(compute, t);
    if (!k) {
        ff_reference_ops_of(compute->dtype)->norm_train(compute, norm, scratch);
        return;
    }
    const size_t pixels = (size_t)t->h * t->w, blocks = (size_t)ff_tensor_blocks(t);
    const size_t planes = blocks * t->n, channels = blocks * t->block;
    const ff_norm_work work = ff_norm_work_of(compute, channels, scratch);
    const size_t plane_bytes = pixels * t->block * compute->element_bytes;
    const char *x = norm->x;
    for (size_t b = 0; b < blocks; b++)
        ff_convert(work.shift + b * t->block, FF_F32, x + b * plane_bytes, compute->dtype,
                   (size_t)t->block);
#pragma omp parallel num_threads(compute->threads)
    {
        size_t from, to;
        int thread = omp_get_thread_num();
        ff_share(planes, compute->threads, thread, &from, &to);
        double *sums = work.sums + 2 * channels * (size_t)thread;
        memset(sums, 0, 2 * channels * sizeof *sums);
        for (size_t plane = norm->held ? to : from; plane < to; plane++) {
            size_t c = plane % blocks * t->block;
            k->statistics(x + plane * plane_bytes, pixels, work.shift + c, sums + c,
                          sums + channels + c);
        }
#pragma omp barrier
#pragma omp single
        {
            combine(compute, channels, work.sums);
            finish_statistics(compute, norm, &work);
        }
        if (norm->y) apply_planes(compute, norm, k, &work, from, to);
    }
}

void ff_fused_fold_norm(ff_compute *compute, const ff_fold *fold, bool training, float *scratch) {
    ff_norm norm = fold->norm;
    if (!training) norm.held = true;
    norm.y = NULL;
    ff_fused_norm_train(compute, &norm, scratch);
}

void ff_fused_norm_evaluate(ff_compute *compute, const ff_norm *norm, float *scratch) {
    const ff_tensor *t = &norm->shape;
    const kernels *k = kernels_for(compute, t);
    if (!k) {
        ff_reference_ops_of(compute->dtype)->norm_evaluate(compute, norm, scratch);
        return;
    }
    const size_t channels = (size_t)ff_tensor_padded_channels(t);
    const ff_norm_work work = ff_norm_work_of(compute, channels, scratch);
    for (size_t c = 0; c < channels; c++) {
        float inv_std = 1.0f / sqrtf(norm->running_var[c] + norm->epsilon);
        work.scale[c] = norm->gamma[c] * inv_std;
        work.shift[c] = norm->beta[c] - norm->running_mean[c] * work.scale[c];
    }
#pragma omp parallel num_threads(compute->threads)
    {
        size_t from, to;
        ff_share((size_t)ff_tensor_blocks(t) * t->n, compute->threads, omp_get_thread_num(), &from,
                 &to);
        apply_planes(compute, norm, k, &work, from, to);
    }
}

static plane_arguments at_plane(const ff_compute *compute, const ff_norm_backward *norm,
                                const ff_norm_work *work, void *g, double *sums, size_t plane) {
    const ff_norm *forward = &norm->forward;
    const ff_tensor *t = &forward->shape;
    const size_t pixels = (size_t)t->h * t->w, blocks = (size_t)ff_tensor_blocks(t);
    const size_t at = plane * pixels * t->block * compute->element_bytes;
    const size_t c = plane % blocks * t->block;
    const char *x = forward->x, *y = forward->y, *dy = norm->dy, *dy2 = norm->dy2;
    return (plane_arguments){
        .pixels = pixels,
        .x = x + at,
        .y = y + at,
        .dy = dy + at,
        .dy2 = dy2 ? dy2 + at : NULL,
        .g = g ? (char *)g + at : NULL,
        .dx = (char *)norm->dx + at,
        .scale = work->scale + c,
        .shift = work->shift + c,
        .mean = forward->mean + c,
        .slope = work->slope + c,
        .base = work->base + c,
        .sum = sums + c,
        .products = sums + blocks * t->block + c,
    };
}

static void set_factors(const ff_norm *forward, const ff_norm_work *work, size_t c,
                        ff_norm_sums sums) {
    const double inv_std = (double)forward->inv_std[c], scale = (double)work->scale[c];
    const double m = forward->held ? INFINITY : sums.m;
    work->slope[c] = (float)(-scale * inv_std * sums.products / m);
    work->base[c] = (float)(-scale * sums.sum / m);
}

void ff_norm_finish_backward(ff_compute *compute, const ff_norm_backward *norm,
                             const ff_norm_work *work) {
    const ff_norm *forward = &norm->forward;
    const ff_tensor *t = &forward->shape;
    const size_t channels = (size_t)ff_tensor_padded_channels(t);
    combine(compute, channels, work->sums);
    const double m = (double)t->n * t->h * t->w;
    for (size_t c = 0; c < channels; c++) {
        const double dgamma = work->sums[channels + c] * (double)forward->inv_std[c];
        const ff_norm_sums sums = {m, work->sums[c], dgamma};
        if (norm->dgamma) norm->dgamma[c] = (float)sums.products;
        if (norm->dbeta) norm->dbeta[c] = (float)sums.sum;
        if (forward->ranks.count)
            ff_norm_tell(forward, (int)c, sums.sum, sums.products);
        else
            set_factors(forward, work, c, sums);
    }
    if (!forward->ranks.count) return;
    ff_compute_gather(compute, forward);
    for (size_t c = 0; c < channels; c++)
        set_factors(forward, work, c, ff_norm_join_sums(forward, (int)c));
}

static int mask_of(ff_activation activation, bool sees_y) {
    switch (activation) {
    case FF_ACTIVATION_RELU: return sees_y ? MASK_FROM_Y : MASK_FROM_X;
    case FF_ACTIVATION_RELU6: return MASK_6_FROM_X;
    case FF_ACTIVATION_GELU: return MASK_GELU;
    default: return MASK_NONE;
    }
}

void ff_fused_norm_backward(ff_compute *compute, const ff_norm_backward *norm, float *scratch) {
    const ff_norm *forward = &norm->forward;
    const ff_tensor *t = &forward->shape;
    const kernels *k = kernels_for(compute, t);
    if (!k) {
        ff_reference_ops_of(compute->dtype)->norm_backward(compute, norm, scratch);
        return;
    }
    const size_t channels = (size_t)ff_tensor_padded_channels(t);
    const size_t planes = (size_t)ff_tensor_blocks(t) * t->n;
    const ff_norm_work work = ff_norm_work_of(compute, channels, scratch);
    ff_norm_set_scale(forward, &work);
    const int mask = mask_of(forward->activation, forward->residual);
    /* The masked sum of gradients is stored if it is needed later, or if computing it again would
     * cost two more reads. */
    void *kept = norm->dresidual;
    if (!kept && (norm->dy2 || mask == MASK_GELU || mask == MASK_FROM_Y)) kept = norm->dx;
    void *g = kept ? kept : (void *)norm->dy;
#pragma omp parallel num_threads(compute->threads)
    {
        size_t from, to;
        int thread = omp_get_thread_num();
        ff_share(planes, compute->threads, thread, &from, &to);
        double *sums = work.sums + 2 * channels * (size_t)thread;
        memset(sums, 0, 2 * channels * sizeof *sums);
        for (size_t plane = from; plane < to; plane++) {
            const plane_arguments arguments = at_plane(compute, norm, &work, kept, sums, plane);
            k->reduce(&arguments, mask);
        }
#pragma omp barrier
#pragma omp single
        ff_norm_finish_backward(compute, norm, &work);
        for (size_t plane = to; plane-- > from;) {
            const plane_arguments arguments = at_plane(compute, norm, &work, g, sums, plane);
            k->gradient(&arguments, kept ? MASK_NONE : mask);
        }
    }
}

/* ---- elements in bf16 ---- */

#define SIXTEEN(x)                                                                                 \
    { x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x }

void ff_fused_narrow(ff_activation activation, bool backward, size_t count, const uint16_t *x,
                     const uint16_t *more, uint16_t *y) {
    static _Alignas(64) const float one[16] = SIXTEEN(1.0f), nothing[16] = SIXTEEN(-0.0f);
    const size_t block = ff_has_vectors(16) ? 16 : 8, vectors = count / block, rest = count % block;
    const kernels *k = &table[ff_kernel_row(FF_BF16, (int)block)];
    double unused[2][16] = {{0}};
    if (backward)
        k->reduce(&(plane_arguments){.pixels = vectors,
                                     .x = x,
                                     .dy = more,
                                     .g = y,
                                     .scale = one,
                                     .shift = nothing,
                                     .mean = nothing,
                                     .sum = unused[0],
                                     .products = unused[1]},
                  mask_of(activation, false));
    else
        k->apply(x, more, y, vectors, one, nothing, activation);
    if (!rest) return;
    _Alignas(64) uint16_t last[3][16] = {{0}};
    memcpy(last[0], x + count - rest, rest * sizeof *x);
    if (more) memcpy(last[1], more + count - rest, rest * sizeof *x);
    ff_fused_narrow(activation, backward, block, last[0], more ? last[1] : NULL, last[2]);
    memcpy(y + count - rest, last[2], rest * sizeof *y);
}
