/* Depthwise convolutions in own loops, apart from the norm and ReLU6 before them and with these
 * folded in, against the plain loops of a norm and a convolution, on random odd shapes.
 *
 * Against oneDNN's kernels, which computed these convolutions before, bits are not compared: its
 * sums for the filter's gradient have an order of their own, which depends on its version. Folded
 * and apart have the same bits in f32. */
#include "tests/unit/train_helpers.h"

#include "train/compute/cpu/fused.h"
#include "train/compute/cpu/fused_depthwise.h"
#include "train/net/ops/ops.h"

/* What a norm, ReLU6 and a convolution compute: the outputs in training and in evaluation, and the
 * gradients, in torch's order. */
enum { Y, EVALUATED, DX, DW, DGAMMA, DBETA, MEAN, RUNNING, RESULTS };

typedef struct depthwise_case {
    ff_conv_shape shape; /* block 1 */
    bool held;
    float *x, *w, *dy, *gamma, *beta, *variance; /* in torch's order */
} depthwise_case;

typedef struct results {
    float *of[RESULTS];
} results;

static size_t count_of(const depthwise_case *k, int result) {
    if (result == Y || result == EVALUATED) return logical_count(&k->shape.output);
    if (result == DX) return logical_count(&k->shape.input);
    return (size_t)k->shape.input.c * (result == DW ? 9 : 1);
}

static float *padded(const ff_tensor *t, const float *values) {
    float *all = floats((size_t)ff_tensor_padded_channels(t));
    memcpy(all, values, (size_t)t->c * sizeof *all);
    return all;
}

/* The arrays of one side. */
typedef struct arrays {
    ff_compute *compute;
    ff_conv_shape shape;
    ff_norm norm;
    void *x, *between, *y, *dy, *dbetween, *dx, *w, *dw;
    float *channels[8], *scratch, *norm_scratch;
} arrays;

static void *narrowed(const ff_compute *compute, float *values, size_t count) {
    if (compute->dtype == FF_F32) return values;
    void *narrow = floats(count);
    ff_convert(narrow, compute->dtype, values, FF_F32, count);
    free(values);
    return narrow;
}

static float *widened(const ff_compute *compute, const ff_tensor *t, const void *memory) {
    float *wide = floats(ff_tensor_count(t));
    ff_convert(wide, FF_F32, memory, compute->dtype, ff_tensor_count(t));
    float *nchw = flatten(t, wide);
    free(wide);
    return nchw;
}

static arrays lay_case(ff_compute *compute, const depthwise_case *k, int block) {
    arrays a = {.compute = compute, .shape = k->shape};
    ff_tensor *in = &a.shape.input, *out = &a.shape.output;
    in->block = out->block = block;
    const size_t inputs = ff_tensor_count(in), outputs = ff_tensor_count(out);
    const size_t weights = 9 * (size_t)ff_tensor_padded_channels(in);
    float *w = floats(weights), *zeros = floats((size_t)in->c);
    if (block == 1)
        memcpy(w, k->w, weights * sizeof *w);
    else
        ff_fused_depthwise_import(&a.shape, k->w, w);
    a.w = narrowed(compute, w, weights);
    a.dw = floats(weights);
    a.x = narrowed(compute, lay_out(in, k->x), inputs);
    a.dy = narrowed(compute, lay_out(out, k->dy), outputs);
    a.between = floats(inputs), a.dbetween = floats(inputs), a.dx = floats(inputs);
    a.y = floats(outputs);
    for (int i = 0; i < 8; i++)
        a.channels[i] = padded(in, i == 0   ? k->gamma
                                   : i == 1 ? k->beta
                                   : i == 3 ? k->variance
                                            : zeros);
    a.scratch = floats(ff_fused_depthwise_scratch(compute, &a.shape) / sizeof(float));
    a.norm_scratch = floats(ff_fused_norm_scratch(compute, in));
    a.norm = (ff_norm){.shape = *in,
                       .activation = FF_ACTIVATION_RELU6,
                       .momentum = 0.1f,
                       .epsilon = 1e-5f,
                       .held = k->held,
                       .gamma = a.channels[0],
                       .beta = a.channels[1],
                       .running_mean = a.channels[2],
                       .running_var = a.channels[3],
                       .mean = a.channels[4],
                       .inv_std = a.channels[5],
                       .x = a.x,
                       .y = a.between};
    free(zeros);
    return a;
}

/* Releases the arrays. */
static results take_results(arrays *a, float *y, float *evaluated) {
    results r = {{y, evaluated, widened(a->compute, &a->shape.input, a->dx),
                  floats(9 * (size_t)a->shape.input.c)}};
    const size_t weights = 9 * (size_t)ff_tensor_padded_channels(&a->shape.input);
    float *dw = floats(weights);
    ff_convert(dw, FF_F32, a->dw, a->compute->dtype, weights);
    if (a->shape.input.block == 1)
        memcpy(r.of[DW], dw, weights * sizeof *dw);
    else
        ff_fused_depthwise_export(&a->shape, dw, r.of[DW]);
    free(dw);
    const int from[] = {6, 7, 4, 3};
    for (int i = 0; i < 4; i++) {
        r.of[DGAMMA + i] = a->channels[from[i]];
        a->channels[from[i]] = NULL;
    }
    void *const all[] = {a->x,  a->between, a->y,  a->dy,      a->dbetween,
                         a->dx, a->w,       a->dw, a->scratch, a->norm_scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    for (int i = 0; i < 8; i++) free(a->channels[i]);
    return r;
}

static void free_results(results *r) {
    for (int i = 0; i < RESULTS; i++) free(r->of[i]);
}

static float *forward_apart(arrays *a, bool training) {
    ff_compute *compute = a->compute;
    const ff_compute_ops *ops = compute->ops;
    const bool plain = a->shape.input.block == 1;
    ff_conv conv = {.shape = a->shape};
    if (training)
        (plain ? ops->norm_train : ff_fused_norm_train)(compute, &a->norm, a->norm_scratch);
    else
        (plain ? ops->norm_evaluate : ff_fused_norm_evaluate)(compute, &a->norm, a->norm_scratch);
    if (plain)
        ops->conv_forward(compute, &conv, a->between, a->w, NULL, a->y, NULL);
    else
        ff_fused_depthwise_forward(compute, &a->shape, NULL, a->between, a->w, NULL, a->y,
                                   a->scratch);
    return widened(compute, &a->shape.output, a->y);
}

/* Norm and convolution apart: in plain loops, or in the kernels. */
static results run_apart(ff_compute *compute, const depthwise_case *k, int block) {
    arrays a = lay_case(compute, k, block);
    const ff_compute_ops *ops = compute->ops;
    ff_conv conv = {.shape = a.shape};
    const ff_norm_backward back = {.forward = a.norm,
                                   .dy = a.dbetween,
                                   .dx = a.dx,
                                   .dgamma = a.channels[6],
                                   .dbeta = a.channels[7]};
    float *evaluated = forward_apart(&a, false), *y = forward_apart(&a, true);
    if (block == 1) {
        ops->conv_backward_weights(compute, &conv, a.between, a.dy, a.dw, NULL, NULL);
        ops->conv_backward_data(compute, &conv, a.dy, a.w, a.dbetween, NULL);
        ops->norm_backward(compute, &back, a.norm_scratch);
    } else {
        ff_fused_depthwise_backward_weights(compute, &a.shape, a.between, a.dy, a.dw, a.scratch);
        ff_fused_depthwise_backward_data(compute, &a.shape, a.dy, a.w, a.dbetween, a.scratch);
        ff_fused_norm_backward(compute, &back, a.norm_scratch);
    }
    return take_results(&a, y, evaluated);
}

static float *forward_folded(arrays *a, const ff_fold *fold, bool training) {
    ff_fused_fold_norm(a->compute, fold, training, a->norm_scratch);
    ff_fused_depthwise_forward(a->compute, &a->shape, &fold->norm, a->x, a->w, NULL, a->y,
                               a->scratch);
    return widened(a->compute, &a->shape.output, a->y);
}

static results run_folded(ff_compute *compute, const depthwise_case *k, int block) {
    arrays a = lay_case(compute, k, block);
    const ff_fold fold = {.norm = a.norm, .dgamma = a.channels[6], .dbeta = a.channels[7]};
    float *evaluated = forward_folded(&a, &fold, false), *y = forward_folded(&a, &fold, true);
    ff_fused_depthwise_fold_backward(compute, &a.shape, &fold, a.w, a.dy, a.dx, a.dw, a.scratch);
    return take_results(&a, y, evaluated);
}

/* Strides of 1 and 2, images from one pixel, channels that fill no block. */
static depthwise_case draw_case(const ff_compute *compute, dice *d) {
    const ff_tensor input = {between(d, 1, 5), between(d, 1, 40), between(d, 1, 13),
                             between(d, 1, 13), 1};
    const int stride = between(d, 1, 2);
    depthwise_case k = {.shape = {.input = input,
                                  .output = {input.n, input.c, (input.h - 1) / stride + 1,
                                             (input.w - 1) / stride + 1, 1},
                                  .kernel = 3,
                                  .stride = stride,
                                  .pad = 1,
                                  .groups = input.c},
                        .held = roll(d, 4) == 0};
    const size_t channels = (size_t)input.c;
    if (input.n * input.h * input.w < 8) k.held = true; /* else dx is what rounding leaves */
    float **const all[] = {&k.x, &k.w, &k.dy, &k.gamma, &k.beta, &k.variance};
    const size_t counts[] = {logical_count(&input),
                             9 * channels,
                             logical_count(&k.shape.output),
                             channels,
                             channels,
                             channels};
    for (int i = 0; i < 6; i++) {
        *all[i] = random_floats(d, counts[i]);
        if (i < 3) round_all(compute, *all[i], counts[i]);
    }
    for (size_t c = 0; c < channels; c++) { /* on both sides of 0 and of 6 */
        k.gamma[c] = 2 * k.gamma[c];
        k.beta[c] = 2 * k.beta[c] + 3;
        k.variance[c] = fabsf(k.variance[c]) + 0.5f;
    }
    return k;
}

static ff_compute *open_plain(int threads, ff_precision precision) {
    const ff_compute_options options = {.threads = threads, .precision = precision};
    ff_compute *compute;
    assert_ok(ff_compute_open(&compute, "reference", &options, error));
    return compute;
}

/* Within one rounding to bf16, and a thousandth of the root mean square where sums cancel. */
static void expect_rounded(const float *right, const float *got, size_t count) {
    double squares = 0;
    for (size_t i = 0; i < count; i++) squares += (double)right[i] * (double)right[i];
    const double least = 1e-3 * sqrt(squares / (double)count);
    for (size_t i = 0; i < count; i++)
        assert_true(fabsf(right[i] - got[i]) <= fabsf(right[i]) / 256 + (float)least);
}

static void compare_case(ff_compute *compute, ff_compute *wide, dice *d, int block) {
    const depthwise_case k = draw_case(compute, d);
    results plain = run_apart(wide, &k, 1), apart = run_apart(compute, &k, block);
    results folded = run_folded(compute, &k, block);
    for (int i = 0; i < RESULTS; i++) {
        const size_t count = count_of(&k, i);
        if (compute->dtype == FF_F32) {
            assert_memory_equal(folded.of[i], apart.of[i], count * sizeof(float));
            assert_close(plain.of[i], folded.of[i], count, 1e-4);
        } else {
            expect_rounded(plain.of[i], folded.of[i], count);
            assert_close(plain.of[i], apart.of[i], count, 1e-1);
        }
    }
    free_results(&plain);
    free_results(&apart);
    free_results(&folded);
    float *const all[] = {k.x, k.w, k.dy, k.gamma, k.beta, k.variance};
    for (int i = 0; i < 6; i++) free(all[i]);
}

static void folded_and_apart_are_right(void **state) {
    (void)state;
    dice d = {.seed = 71};
    ff_compute *wide = open_plain(2, FF_PRECISION_F32);
    for (int i = 0; i < 8; i++) {
        ff_compute *compute = open_plain(1 + i / 2, i % 2 ? FF_PRECISION_BF16 : FF_PRECISION_F32);
        for (int j = 0; j < 40; j++) compare_case(compute, wide, &d, j % 2 ? 16 : 8);
        ff_compute_close(&compute);
    }
    ff_compute_close(&wide);
}

/* ---- in a net ---- */

static ff_node deep(ff_graph *g, ff_node x, const char *name, int channels, int stride) {
    const ff_conv_form form = {.kernel = 3, .stride = stride, .pad = 1, .groups = channels};
    return ff_graph_conv(g, x, name, channels, &form);
}

/* Three norms before depthwise convolutions: with ReLU6, with ReLU, and with ReLU6 and a second
 * reader. */
static void build_deep(ff_graph *g) {
    const ff_conv_form across = {.kernel = 1};
    ff_node x = ff_graph_conv(g, 0, "a", 20, &across);
    x = deep(g, ff_graph_relu6(g, ff_graph_norm(g, x, "an")), "b", 20, 2);
    x = deep(g, ff_graph_relu(g, ff_graph_norm(g, x, "bn")), "c", 20, 1);
    x = ff_graph_relu6(g, ff_graph_norm(g, x, "cn"));
    x = ff_graph_add(g, deep(g, x, "d", 20, 1), x);
    x = ff_graph_flatten(g, ff_graph_global_pool(g, x, "avg"));
    ff_graph_finish(g, ff_graph_linear(g, x, "fc", 5));
}

/* A plan that does not fold has the folded plan's bits: one that does not train a norm's scale. */
static void only_a_norm_with_relu6_is_folded(void **state) {
    (void)state;
    enum { BATCH = 3 };
    dice d = {.seed = 72};
    float *images = random_floats(&d, BATCH * 4 * 9 * 8);
    const int64_t labels[BATCH] = {1, 4, 2};
    const ff_batch batch = {.images = images, .labels = labels, .label_dtype = FF_I64};
    net n;
    open_net(&n, build_deep, 4, 9, 8, BATCH, NULL, 2);
    const bool folds = n.compute->fusions & FF_FUSE_NORM_DEPTHWISE;
    const int parameters = n.graph->parameter_count;
    bool *without = calloc((size_t)parameters, sizeof *without);
    for (int i = 0; i < parameters; i++)
        without[i] = !strcmp(n.graph->parameters[i].name, "an.weight");
    ff_plan *apart;
    assert_ok(ff_plan_create(&apart, n.graph, n.compute, BATCH, true, without, n.plan, error));
    apart->store = &n.store;
    ff_plan *const plans[] = {n.plan, apart};
    float first[20 * 4]; /* the gradient of a.weight */
    double evaluated[2], trained[2];
    for (int k = 0; k < 2; k++) {
        int folded = 0;
        for (int i = 0; i < plans[k]->op_count; i++)
            folded += plans[k]->ops[i].type == &ff_op_norm && plans[k]->ops[i].norm.folded_by;
        assert_int_equal(folded, folds && k == 0);
        evaluated[k] = run_plan(plans[k], &batch, false).loss_sum;
    }
    for (int k = 0; k < 2; k++) {
        trained[k] = run_plan(plans[k], &batch, true).loss_sum;
        for (int i = 0; i < parameters; i++) {
            const float *gradient = ff_store_gradient(&n.store, i);
            if (strcmp(n.graph->parameters[i].name, "a.weight") != 0) continue;
            if (k) assert_memory_equal(first, gradient, sizeof first);
            memcpy(first, gradient, sizeof first);
        }
    }
    assert_true(evaluated[0] == evaluated[1] && trained[0] == trained[1]);
    ff_plan_destroy(&apart);
    close_net(&n);
    free(without);
    free(images);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_and_apart_are_right),
        cmocka_unit_test(only_a_norm_with_relu6_is_folded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
