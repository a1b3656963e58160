/* A convolution of a test: drawn, and as a table of the CPU plans it. */
#ifndef FF_TESTS_CONV_CASE_H
#define FF_TESTS_CONV_CASE_H

#include "tests/unit/train_helpers.h"

typedef struct conv_case {
    int n, c, h, w, o, kernel, stride, pad;
    bool bias, images, frozen;
    int groups;
} conv_case;

/* One group; channels that fill blocks and that do not, outputs of at least one pixel. */
static inline conv_case draw_conv_case(dice *d) {
    static const int channels[] = {1, 2, 3, 4, 5, 16, 17, 24, 32, 40, 64, 72};
    static const int kernels[] = {1, 2, 3, 3, 5, 7};
    conv_case k = {
        .n = between(d, 1, 5),
        .c = channels[roll(d, 12)],
        .o = channels[roll(d, 12)],
        .kernel = kernels[roll(d, 6)],
        .stride = between(d, 1, 2),
        .bias = roll(d, 2),
        .images = roll(d, 3) == 0,
        .frozen = roll(d, 4) == 0,
        .groups = 1,
    };
    k.pad = (int)roll(d, (uint32_t)k.kernel / 2 + 1);
    k.h = between(d, k.kernel - 2 * k.pad > 1 ? k.kernel - 2 * k.pad : 1, 15);
    k.w = between(d, k.kernel - 2 * k.pad > 1 ? k.kernel - 2 * k.pad : 1, 15);
    return k;
}

static inline ff_conv_shape conv_case_shape(const ff_compute *compute, const conv_case *k) {
    const ff_compute_ops *ops = compute->ops;
    return (ff_conv_shape){
        .input = {k->n, k->c, k->h, k->w,
                  k->images ? ops->input_block(compute, k->c) : ops->channel_block(compute, k->c)},
        .output = {k->n, k->o, (k->h + 2 * k->pad - k->kernel) / k->stride + 1,
                   (k->w + 2 * k->pad - k->kernel) / k->stride + 1,
                   ops->channel_block(compute, k->o)},
        .kernel = k->kernel,
        .stride = k->stride,
        .pad = k->pad,
        .groups = k->groups,
        .bias = k->bias,
        .input_gradient = !k->images,
        .training = true,
        .frozen = k->frozen,
    };
}

/* One convolution on one table: y, dx, dw, db in plain layouts. */
typedef struct conv_results {
    float *y, *dx, *dw, *db;
} conv_results;

/* Memory after the scratch, which no pass may write. */
typedef char conv_after[4096];

static inline conv_results run_conv(ff_compute *compute, const conv_case *k, const float *x,
                                    const float *w, const float *bias, const float *dy) {
    const ff_compute_ops *ops = compute->ops;
    const ff_conv_shape shape = conv_case_shape(compute, k);
    ff_conv *conv;
    assert_ok(ops->conv_create(compute, &shape, NULL, &conv, error));
    char *scratch;
    assert_ok(ff_alloc_aligned(&scratch, conv->scratch_bytes + sizeof(conv_after), 1, 4096,
                               "a test", error));
    memset(scratch + conv->scratch_bytes, 0x5a, sizeof(conv_after));
    float *held = floats(conv->weight_count), *held_dw = floats(conv->weight_count);
    float *laid_x = lay_out(&shape.input, x), *laid_dy = lay_out(&shape.output, dy);
    float *laid_y = floats(ff_tensor_count(&shape.output));
    float *laid_dx = floats(ff_tensor_count(&shape.input));
    float *laid_bias = floats((size_t)ff_tensor_padded_channels(&shape.output));
    float *laid_db = floats((size_t)ff_tensor_padded_channels(&shape.output));
    memcpy(laid_bias, bias, (size_t)k->o * sizeof *bias);
    const size_t weights = (size_t)k->o * (k->c / k->groups) * k->kernel * k->kernel;
    conv_results results = {.dw = floats(weights), .db = floats((size_t)k->o)};
    ops->conv_import(conv, w, held);
    ops->conv_export(conv, held, results.dw);
    assert_memory_equal(results.dw, w, weights * sizeof *w);
    /* of what the forward pass keeps, nothing is in the scratch, or computed again from the weights
     */
    conv->kept = conv->kept_bytes ? floats(conv->kept_bytes / sizeof(float)) : NULL;
    ops->conv_forward(compute, conv, laid_x, held, k->bias ? laid_bias : NULL, laid_y, scratch);
    ops->conv_backward_weights(compute, conv, laid_x, laid_dy, k->frozen ? NULL : held_dw,
                               k->bias ? laid_db : NULL, scratch);
    memset(scratch, 0xff, conv->scratch_bytes);
    if (conv->kept) memset(held, 0xff, conv->weight_count * sizeof *held);
    if (!k->images) ops->conv_backward_data(compute, conv, laid_dy, held, laid_dx, scratch);
    free(conv->kept);
    assert_ok(ff_compute_check(compute, error));
    ops->conv_export(conv, held_dw, results.dw);
    memcpy(results.db, laid_db, (size_t)k->o * sizeof *laid_db);
    results.y = flatten(&shape.output, laid_y);
    results.dx = flatten(&shape.input, laid_dx);
    conv_after untouched;
    memset(untouched, 0x5a, sizeof untouched);
    assert_memory_equal(scratch + conv->scratch_bytes, untouched, sizeof untouched);
    ops->conv_destroy(compute, conv);
    free(scratch);
    free(held);
    free(held_dw);
    free(laid_x);
    free(laid_dy);
    free(laid_y);
    free(laid_dx);
    free(laid_bias);
    free(laid_db);
    return results;
}

static inline void free_results(conv_results *r) {
    free(r->y);
    free(r->dx);
    free(r->dw);
    free(r->db);
}

#endif
