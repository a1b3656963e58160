/* Convolution in plain loops over NCHW (block 1), sums in double. Formula: compute.h. */
#include "train/compute/cpu/reference.h"

#include "format/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* The columns of one row that are accumulated at a time. */
enum { COLUMNS = 64 };

static int smaller(int a, int b) {
    return a < b ? a : b;
}

/* Channels of a group's input and output. */
static int inputs_of(const ff_conv_shape *s) {
    return s->input.c / s->groups;
}
static int outputs_of(const ff_conv_shape *s) {
    return s->output.c / s->groups;
}

/* The range of output columns q in [from, to) whose input column q * stride + offset is in [0,
 * width). */
static void column_range(int stride, int offset, int width, int *from, int *to) {
    int first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    int last = width - 1 - offset < 0 ? -1 : (width - 1 - offset) / stride;
    if (first > *from) *from = first;
    if (last + 1 < *to) *to = last + 1;
}

ff_status ff_reference_conv_create(ff_compute *compute, const ff_conv_shape *shape,
                                   const ff_conv *sibling, ff_conv **conv, ff_error *error) {
    (void)compute;
    (void)sibling; /* weights are always held in torch's order */
    FF_TRY(ff_alloc(conv, 1, sizeof **conv, "a convolution", error));
    (*conv)->shape = *shape;
    (*conv)->weight_count = (size_t)shape->output.c * (size_t)inputs_of(shape) *
                            (size_t)shape->kernel * (size_t)shape->kernel;
    return FF_OK;
}

void ff_reference_conv_destroy(ff_compute *compute, ff_conv *conv) {
    (void)compute;
    free(conv);
}

void ff_reference_conv_import(const ff_conv *conv, const float *oihw, float *held) {
    memcpy(held, oihw, conv->weight_count * sizeof *held);
}

void ff_reference_conv_export(const ff_conv *conv, const float *held, float *oihw) {
    memcpy(oihw, held, conv->weight_count * sizeof *oihw);
}

/* x: the input channels of the output's group. */
static void forward_row(const ff_conv_shape *s, const float *x, const float *w, float bias,
                        float *y, int p) {
    const int kernel = s->kernel, inputs = inputs_of(s);
    for (int base = 0; base < s->output.w; base += COLUMNS) {
        double sum[COLUMNS];
        int end = smaller(base + COLUMNS, s->output.w);
        for (int q = 0; q < COLUMNS; q++) sum[q] = (double)bias;
        for (int i = 0; i < inputs; i++)
            for (int r = 0; r < kernel; r++) {
                int h = p * s->stride - s->pad + r;
                if (h < 0 || h >= s->input.h) continue;
                const float *row = x + ((size_t)i * s->input.h + h) * s->input.w;
                for (int c = 0; c < kernel; c++) {
                    double weight = (double)w[(i * kernel + r) * kernel + c];
                    int from = base, to = end, offset = c - s->pad;
                    column_range(s->stride, offset, s->input.w, &from, &to);
                    for (int q = from; q < to; q++)
                        sum[q - base] += weight * (double)row[q * s->stride + offset];
                }
            }
        for (int q = base; q < end; q++) y[q] = (float)sum[q - base];
    }
}

void ff_reference_conv_forward(ff_compute *compute, ff_conv *conv, const void *x_memory,
                               const void *w_memory, const void *bias_memory, void *y_memory,
                               void *scratch) {
    const float *x = x_memory, *w = w_memory, *bias = bias_memory;
    float *y = y_memory;
    (void)scratch;
    const ff_conv_shape *s = &conv->shape;
    const size_t x_sample = ff_tensor_sample(&s->input), y_sample = ff_tensor_sample(&s->output);
    const size_t filter = (size_t)inputs_of(s) * s->kernel * s->kernel;
    const size_t group = (size_t)inputs_of(s) * s->input.h * s->input.w;
    const int planes = s->output.n * s->output.c;
#pragma omp parallel for num_threads(compute->threads)
    for (int plane = 0; plane < planes; plane++) {
        int n = plane / s->output.c, o = plane % s->output.c;
        float *to = y + n * y_sample + (size_t)o * s->output.h * s->output.w;
        const float *from = x + n * x_sample + (size_t)(o / outputs_of(s)) * group;
        for (int p = 0; p < s->output.h; p++)
            forward_row(s, from, w + o * filter, bias ? bias[o] : 0.0f,
                        to + (size_t)p * s->output.w, p);
    }
}

/* One row h of the input gradient of channel i: the sum over all outputs that use this row. */
static void backward_data_row(const ff_conv_shape *s, const float *dy, const float *w, float *dx,
                              int i, int h) {
    const int kernel = s->kernel, inputs = inputs_of(s), outputs = outputs_of(s);
    const size_t filter = (size_t)inputs * kernel * kernel;
    const int group = i / inputs;
    for (int base = 0; base < s->input.w; base += COLUMNS) {
        double sum[COLUMNS] = {0};
        int end = smaller(base + COLUMNS, s->input.w);
        for (int o = group * outputs; o < (group + 1) * outputs; o++)
            for (int r = 0; r < kernel; r++) {
                int p = h + s->pad - r;
                if (p < 0 || p % s->stride || p / s->stride >= s->output.h) continue;
                const float *row = dy + ((size_t)o * s->output.h + p / s->stride) * s->output.w;
                for (int c = 0; c < kernel; c++) {
                    double weight = (double)w[o * filter + (i % inputs * kernel + r) * kernel + c];
                    int offset = c - s->pad, from = 0, to = s->output.w;
                    column_range(s->stride, offset - base, end - base, &from, &to);
                    for (int q = from; q < to; q++)
                        sum[q * s->stride + offset - base] += weight * (double)row[q];
                }
            }
        for (int column = base; column < end; column++) dx[column] = (float)sum[column - base];
    }
}

void ff_reference_conv_backward_data(ff_compute *compute, ff_conv *conv, const void *dy_memory,
                                     const void *w_memory, void *dx_memory, void *scratch) {
    const float *dy = dy_memory, *w = w_memory;
    float *dx = dx_memory;
    (void)scratch;
    const ff_conv_shape *s = &conv->shape;
    const size_t x_sample = ff_tensor_sample(&s->input), y_sample = ff_tensor_sample(&s->output);
    const int planes = s->input.n * s->input.c;
#pragma omp parallel for num_threads(compute->threads)
    for (int plane = 0; plane < planes; plane++) {
        int n = plane / s->input.c, i = plane % s->input.c;
        float *to = dx + n * x_sample + (size_t)i * s->input.h * s->input.w;
        for (int h = 0; h < s->input.h; h++)
            backward_data_row(s, dy + n * y_sample, w, to + (size_t)h * s->input.w, i, h);
    }
}

/* The gradient of one weight of filter o and input channel i. */
static double weight_sum(const ff_conv_shape *s, const float *x, const float *dy, int o, int i,
                         int r, int c) {
    const size_t x_sample = ff_tensor_sample(&s->input), y_sample = ff_tensor_sample(&s->output);
    int offset = c - s->pad, from = 0, to = s->output.w;
    column_range(s->stride, offset, s->input.w, &from, &to);
    double sum = 0;
    for (int n = 0; n < s->input.n; n++)
        for (int p = 0; p < s->output.h; p++) {
            int h = p * s->stride - s->pad + r;
            if (h < 0 || h >= s->input.h) continue;
            const float *from_x = x + n * x_sample + ((size_t)i * s->input.h + h) * s->input.w;
            const float *from_y = dy + n * y_sample + ((size_t)o * s->output.h + p) * s->output.w;
            for (int q = from; q < to; q++)
                sum += (double)from_y[q] * (double)from_x[q * s->stride + offset];
        }
    return sum;
}

void ff_reference_conv_backward_weights(ff_compute *compute, ff_conv *conv, const void *x_memory,
                                        const void *dy_memory, void *dw_memory, float *dbias,
                                        void *scratch) {
    const float *x = x_memory, *dy = dy_memory;
    float *dw = dw_memory;
    (void)scratch;
    const ff_conv_shape *s = &conv->shape;
    const int kernel = s->kernel, inputs = inputs_of(s), filters = s->output.c * inputs;
    const size_t pixels = (size_t)s->output.h * s->output.w;
#pragma omp parallel for num_threads(compute->threads) if (dw)
    for (int f = 0; f < (dw ? filters : 0); f++) {
        const int o = f / inputs, i = o / outputs_of(s) * inputs + f % inputs;
        for (int r = 0; r < kernel; r++)
            for (int c = 0; c < kernel; c++)
                dw[((size_t)f * kernel + r) * kernel + c] = (float)weight_sum(s, x, dy, o, i, r, c);
    }
    for (int o = 0; dbias && o < s->output.c; o++) {
        double sum = 0;
        for (int n = 0; n < s->output.n; n++)
            for (size_t k = 0; k < pixels; k++)
                sum += (double)dy[((size_t)n * s->output.c + o) * pixels + k];
        dbias[o] = (float)sum;
    }
}
