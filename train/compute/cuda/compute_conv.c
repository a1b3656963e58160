/* Convolutions: each pass is planned by the library, or uses an own kernel if the library has no
 * engine for it. Depthwise convolutions that kernels/depthwise.h supports use only own kernels:
 * nothing is planned for them. */
#include "format/base/memory.h"
#include "train/compute/cuda/compute.h"

#include <stdlib.h>
#include <string.h>

typedef struct conv {
    ff_conv base;
    ff_cuda_compute *self;
    ff_library_conv *forward; /* with the bias if `biased` */
    ff_library_conv *sums;    /* forward with statistics; NULL = not planned */
    ff_library_conv *data, *weights;
    bool biased;
    int groups;             /* of the padded channels */
    size_t workspace_bytes; /* of the largest pass; followed in scratch by: */
    size_t f32_bytes; /* a bias or depthwise gradient in f32; then the scratch of column sums */
} conv;

/* *out = NULL: the fused graph does not exist. */
static ff_status plan(conv *c, ff_library_pass pass, ff_library_prologue prologue,
                      ff_library_epilogue epilogue, ff_library_conv **out, ff_error *error) {
    const ff_conv_shape *s = &c->base.shape;
    const ff_library_conv_spec spec = {
        .pass = pass,
        .precision = c->self->base.precision,
        .n = s->input.n,
        .h = s->input.h,
        .w = s->input.w,
        .c = ff_tensor_padded_channels(&s->input),
        .k = ff_tensor_padded_channels(&s->output),
        .kernel = s->kernel,
        .stride = s->stride,
        .pad = s->pad,
        .groups = c->groups,
        .prologue = prologue,
        .epilogue = epilogue,
    };
    ff_error why = {0};
    const ff_status status = c->self->table->conv_create(c->self->library, &spec, out, &why);
    if (status != FF_OK && error) *error = why;
    if (*out && (*out)->workspace_bytes > c->workspace_bytes)
        c->workspace_bytes = ff_align_u64((*out)->workspace_bytes, 256);
    return status;
}

static void drop_passes(conv *c) {
    ff_library_conv **passes[] = {&c->forward, &c->sums, &c->data, &c->weights};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        c->self->table->conv_destroy(c->self->library, *passes[i]);
        *passes[i] = NULL;
    }
    c->workspace_bytes = 0;
}

/* Plans all three passes with the folded norm, or none of them: if one pass were not folded, the
 * others would save no memory traffic. */
static ff_status plan_folded(conv *c, ff_error *error) {
    const ff_conv_shape *s = &c->base.shape;
    const ff_library_prologue norm = FF_PROLOGUE_SCALE_SHIFT_RELU;
    if (s->statistics)
        FF_TRY(plan(c, FF_PASS_FORWARD, norm, FF_EPILOGUE_STATISTICS, &c->sums, error));
    if (!c->sums) FF_TRY(plan(c, FF_PASS_FORWARD, norm, FF_EPILOGUE_NONE, &c->forward, error));
    if (c->sums || c->forward)
        FF_TRY(plan(c, FF_PASS_BACKWARD_WEIGHTS, norm, FF_EPILOGUE_NONE, &c->weights, error));
    if (c->weights)
        FF_TRY(plan(c, FF_PASS_BACKWARD_DATA, FF_PROLOGUE_NONE, FF_EPILOGUE_RELU_NORM_BACKWARD,
                    &c->data, error));
    c->base.folded = c->data;
    if (!c->base.folded) drop_passes(c);
    return FF_OK;
}

/* Nanoseconds to read or write `bytes`. */
static double pass_ns(const conv *c, uint64_t bytes) {
    return (double)bytes / c->self->bytes_per_ns;
}

static ff_status plan_apart(conv *c, ff_error *error) {
    const ff_conv_shape *s = &c->base.shape;
    const ff_library_prologue none = FF_PROLOGUE_NONE;
    if (s->bias) FF_TRY(plan(c, FF_PASS_FORWARD, none, FF_EPILOGUE_BIAS, &c->forward, error));
    c->biased = c->forward;
    if (!c->forward) FF_TRY(plan(c, FF_PASS_FORWARD, none, FF_EPILOGUE_NONE, &c->forward, error));
    if (s->statistics && !s->bias)
        FF_TRY(plan(c, FF_PASS_FORWARD, none, FF_EPILOGUE_STATISTICS, &c->sums, error));
    if (c->sums && c->sums->engine.ns && c->forward->engine.ns &&
        (double)c->sums->engine.ns >
            (double)c->forward->engine.ns + pass_ns(c, ff_library_conv_bytes(&c->sums->spec).y)) {
        /* slower than a separate pass */
        c->self->table->conv_destroy(c->self->library, c->sums);
        c->sums = NULL;
    }
    if (s->input_gradient)
        FF_TRY(plan(c, FF_PASS_BACKWARD_DATA, none, FF_EPILOGUE_NONE, &c->data, error));
    if (s->training && !s->frozen)
        FF_TRY(plan(c, FF_PASS_BACKWARD_WEIGHTS, none, FF_EPILOGUE_NONE, &c->weights, error));
    return FF_OK;
}

/* Folds the norm before the convolution if that was measured to be faster. Folding saves memory
 * traffic but may lose tensor cores: without times for both variants the norm is not folded. */
static ff_status plan_all(conv *c, ff_error *error) {
    ff_cuda_compute *self = c->self;
    if (c->base.depthwise) return FF_OK;
    if (!c->base.shape.fold || !(self->timed || self->ahead)) return plan_apart(c, error);
    const bool was_tried = self->tried;
    self->tried |= self->ahead;
    const ff_status status_folded = plan_folded(c, error);
    self->tried = was_tried;
    FF_TRY(status_folded);
    const double folded_ns = c->base.folded ? ff_cuda_conv_ns(&c->base) : 0;
    if (folded_ns <= 0) {
        drop_passes(c);
        c->base.folded = false;
        return plan_apart(c, error);
    }
    conv folded = *c;
    c->forward = c->sums = c->data = c->weights = NULL;
    c->workspace_bytes = 0;
    c->base.folded = false;
    const ff_status status = plan_apart(c, error);
    const double apart_ns = status == FF_OK ? ff_cuda_conv_ns(&c->base) : 0;
    if (status == FF_OK && folded_ns <= apart_ns) {
        drop_passes(c);
        *c = folded;
    } else {
        drop_passes(&folded);
    }
    return status;
}

static ff_cuda_depthwise depthwise_of(const ff_conv_shape *s) {
    return (ff_cuda_depthwise){.input = s->input, .output = s->output, .stride = s->stride};
}

/* Groups of the padded channels. If a group is one channel, padding forms additional groups;
 * otherwise padding is not possible. */
static ff_status divide(conv *c, int inputs, int outputs, ff_error *error) {
    const ff_conv_shape *s = &c->base.shape;
    const bool single = s->input.c == s->groups && s->output.c == s->groups;
    if (s->groups > 1 && single && inputs == outputs) {
        c->groups = inputs;
        c->base.depthwise = ff_conv_is_depthwise(s);
    } else {
        c->groups = s->groups;
        if (s->groups > 1 && (inputs != s->input.c || outputs != s->output.c))
            return ff_fail(error, FF_USAGE,
                           "%d groups of %d to %d channels: on a GPU, channels must be multiples "
                           "of 8 unless groups are single channels",
                           s->groups, s->input.c, s->output.c);
    }
    return FF_OK;
}

ff_status ff_cuda_conv_create(ff_compute *compute, const ff_conv_shape *shape,
                              const ff_conv *sibling, ff_conv **out, ff_error *error) {
    (void)sibling; /* filters have the same layout for every batch */
    conv *c;
    *out = NULL;
    FF_TRY(ff_alloc(&c, 1, sizeof *c, "a convolution", error));
    c->self = (ff_cuda_compute *)compute;
    c->base.shape = *shape;
    const int inputs = ff_tensor_padded_channels(&shape->input);
    const int outputs = ff_tensor_padded_channels(&shape->output);
    const int taps = shape->kernel * shape->kernel;
    ff_status status;
    FF_TRY_DONE(divide(c, inputs, outputs, error));
    FF_TRY_DONE(plan_all(c, error));
    const size_t columns = ff_cuda_scratch(c->self->queue.multiprocessors, outputs);
    const size_t sums = c->base.depthwise ? (size_t)taps : 1; /* per channel, at most */
    c->base.weight_count = (size_t)outputs * (size_t)taps * (size_t)(inputs / c->groups);
    c->f32_bytes = ff_align_u64(sums * (uint64_t)outputs * sizeof(float), 256);
    c->base.scratch_bytes = c->workspace_bytes + c->f32_bytes + sums * columns;
    c->base.statistics = c->sums;
    c->base.adds_bias = c->biased;
    *out = &c->base;
    return FF_OK;
done:
    ff_cuda_conv_destroy(compute, &c->base);
    return status;
}

void ff_cuda_conv_destroy(ff_compute *compute, ff_conv *base) {
    conv *c = (conv *)base;
    (void)compute;
    if (!c) return;
    drop_passes(c);
    free(c);
}

double ff_cuda_conv_ns(const ff_conv *base) {
    const conv *c = (const conv *)base;
    const ff_conv_shape *s = &base->shape;
    const ff_library_conv *passes[] = {c->sums ? c->sums : c->forward, c->data, c->weights};
    const double y = pass_ns(c, ff_library_conv_bytes(&passes[0]->spec).y);
    const double x = pass_ns(c, ff_library_conv_bytes(&passes[0]->spec).x);
    double ns = s->bias && !c->biased ? 2 * y : s->statistics && !s->bias && !c->sums ? y : 0;
    /* The norm before the convolution. Folded: dx from its factors; else: apply, then sums and dx
     * (norm.h). */
    if (s->fold) ns += c->base.folded ? 3 * x : 7 * x;
    for (int i = 0; i < 3; i++) {
        if (!passes[i]) continue;
        if (!passes[i]->engine.ns) return 0;
        ns += (double)passes[i]->engine.ns;
    }
    return ns;
}

/* ---- weights ---- */

/* Between torch's [o][i][r][s] and the held [o][r][s][i], padded, or [r][s][o]. */
static void permute(const conv *c, float *held, float *oihw, bool import) {
    const ff_conv_shape *s = &c->base.shape;
    const size_t taps = (size_t)s->kernel * (size_t)s->kernel;
    const size_t inputs = (size_t)(ff_tensor_padded_channels(&s->input) / c->groups);
    const size_t by_o = c->base.depthwise ? 1 : taps * inputs;
    const size_t by_tap =
        c->base.depthwise ? (size_t)ff_tensor_padded_channels(&s->output) : inputs;
    for (int o = 0; o < s->output.c; o++)
        for (int i = 0; i < s->input.c / s->groups; i++)
            for (size_t tap = 0; tap < taps; tap++, oihw++) {
                float *at = held + (size_t)o * by_o + tap * by_tap + i;
                if (import)
                    *at = *oihw;
                else
                    *oihw = *at;
            }
}

void ff_cuda_conv_import(const ff_conv *base, const float *oihw, float *held) {
    memset(held, 0, base->weight_count * sizeof *held);
    permute((const conv *)base, held, (float *)oihw, true);
}

void ff_cuda_conv_export(const ff_conv *base, const float *held, float *oihw) {
    permute((const conv *)base, (float *)held, oihw, false);
}

/* ---- passes ---- */

static void run(const conv *c, ff_library_conv *pass, const ff_library_conv_arguments *arguments,
                void *scratch) {
    ff_cuda_compute *self = c->self;
    self->table->conv_run(self->library, pass, self->queue.stream, arguments, scratch,
                          ff_compute_error(&self->base));
}

void ff_cuda_conv_forward(ff_compute *compute, ff_conv *base, const void *x, const void *w,
                          const void *bias, void *y, void *scratch) {
    const conv *c = (const conv *)base;
    const ff_library_conv_arguments arguments = {
        .x = (void *)x, .w = (void *)w, .y = y, .bias = c->biased ? bias : NULL};
    const ff_cuda_queue *queue = &c->self->queue;
    const ff_cuda_depthwise own = depthwise_of(&base->shape);
    if (c->base.depthwise)
        ff_cuda_keep(compute, ff_cuda_depthwise_forward(queue, &own, x, w, y),
                     "a depthwise convolution");
    else
        run(c, c->forward, &arguments, scratch);
    if (!bias || c->biased) return;
    /* The kernel needs an f32 bias. */
    const int channels = ff_tensor_padded_channels(&base->shape.output);
    if (compute->dtype != FF_F32) {
        void *in_f32 = (char *)scratch + c->workspace_bytes;
        ff_cuda_keep(compute,
                     ff_cuda_cast(queue, (size_t)channels, 1, bias, compute->dtype, in_f32, FF_F32),
                     "a convolution's bias");
        bias = in_f32;
    }
    ff_cuda_keep(compute, ff_cuda_bias(queue, &base->shape.output, y, bias, y),
                 "a convolution's bias");
}

void ff_cuda_conv_forward_fused(ff_compute *compute, ff_conv *base, const void *x,
                                const ff_fold *fold, const void *w, void *y, float *sums,
                                void *scratch) {
    const conv *c = (const conv *)base;
    (void)compute;
    ff_library_conv_arguments arguments = {
        .x = (void *)(fold ? fold->norm.x : x),
        .w = (void *)w,
        .y = y,
        .scale = fold ? fold->scale : NULL,
        .shift = fold ? fold->shift : NULL,
    };
    if (c->sums) {
        arguments.sum = sums;
        arguments.square_sum = sums + ff_tensor_padded_channels(&base->shape.output);
    }
    run(c, c->sums ? c->sums : c->forward, &arguments, scratch);
}

void ff_cuda_conv_backward_data(ff_compute *compute, ff_conv *base, const void *dy, const void *w,
                                void *dx, void *scratch) {
    const conv *c = (const conv *)base;
    const ff_library_conv_arguments arguments = {.x = dx, .w = (void *)w, .y = (void *)dy};
    const ff_cuda_depthwise own = depthwise_of(&base->shape);
    if (c->base.depthwise)
        ff_cuda_keep(compute, ff_cuda_depthwise_backward_data(&c->self->queue, &own, dy, w, dx),
                     "a depthwise convolution's input gradient");
    else
        run(c, c->data, &arguments, scratch);
}

/* The kernel writes f32. */
static void depthwise_weights(ff_compute *compute, const conv *c, const void *x, const void *dy,
                              void *dw, float *in_f32, void *columns) {
    const ff_cuda_queue *queue = &c->self->queue;
    const ff_cuda_depthwise own = depthwise_of(&c->base.shape);
    const bool narrow = compute->dtype != FF_F32;
    int result =
        ff_cuda_depthwise_backward_weights(queue, &own, x, dy, narrow ? in_f32 : dw, columns);
    if (!result && narrow)
        result = ff_cuda_cast(queue, c->base.weight_count, 1, in_f32, FF_F32, dw, compute->dtype);
    ff_cuda_keep(compute, result, "a depthwise convolution's weight gradient");
}

void ff_cuda_conv_backward_weights(ff_compute *compute, ff_conv *base, const void *x,
                                   const void *dy, void *dw, float *dbias, void *scratch) {
    const conv *c = (const conv *)base;
    const ff_tensor *output = &base->shape.output;
    const ff_library_conv_arguments arguments = {.x = (void *)x, .w = dw, .y = (void *)dy};
    float *in_f32 = (float *)(void *)((char *)scratch + c->workspace_bytes);
    void *columns = (char *)(void *)in_f32 + c->f32_bytes;
    if (dw && c->base.depthwise)
        depthwise_weights(compute, c, x, dy, dw, in_f32, columns);
    else if (dw)
        run(c, c->weights, &arguments, scratch);
    if (!dbias) return;
    ff_cuda_keep(compute, ff_cuda_bias_gradient(&c->self->queue, output, dy, dbias, columns),
                 "the gradient of a convolution's bias");
}

/* With the folded norm. */
void ff_cuda_fold_backward(ff_compute *compute, ff_conv *base, const ff_fold *fold, const void *w,
                           const void *dy, void *g, void *dw, void *scratch) {
    const conv *c = (const conv *)base;
    const ff_norm *norm = &fold->norm;
    const int channels = ff_tensor_padded_channels(&base->shape.input);
    (void)compute;
    const ff_library_conv_arguments weights = {
        .x = (void *)norm->x,
        .w = dw,
        .y = (void *)dy,
        .scale = fold->scale,
        .shift = fold->shift,
    };
    run(c, c->weights, &weights, scratch);
    const ff_library_conv_arguments data = {
        .x = g,
        .w = (void *)w,
        .y = (void *)dy,
        .norm_x = norm->x,
        .mean = norm->mean,
        .inv_std = norm->inv_std,
        .gamma = norm->gamma,
        .beta = norm->beta,
        .dgamma = fold->dgamma,
        .dbeta = fold->dbeta,
        .gradient_scale = fold->factors,
        .input_scale = fold->factors + channels,
        .offset = fold->factors + 2 * channels,
    };
    run(c, c->data, &data, scratch);
}
