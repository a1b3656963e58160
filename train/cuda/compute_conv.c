/* Convolutions: one planned pass each of the library's, and own kernels where it has none. */
#include "format/base/memory.h"
#include "train/cuda/compute.h"

#include <stdlib.h>
#include <string.h>

typedef struct conv {
    ff_conv base;
    ff_cuda_compute *self;
    ff_library_conv *forward; /* with the bias where `biased` */
    ff_library_conv *sums;    /* forward with statistics; NULL where there is none */
    ff_library_conv *data, *weights;
    bool biased;
    size_t workspace_bytes; /* of the largest pass; what follows it in scratch: */
    size_t bias_bytes;      /* a bias in f32, for the kernel; then the room of column sums */
} conv;

static ff_status plan_with(conv *c, ff_library_pass pass, ff_library_prologue prologue,
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
        .prologue = prologue,
        .epilogue = epilogue,
    };
    FF_TRY(c->self->table->conv_create(c->self->library, &spec, out, error));
    if (*out && (*out)->workspace_bytes > c->workspace_bytes)
        c->workspace_bytes = ff_align_u64((*out)->workspace_bytes, 256);
    return FF_OK;
}

static ff_status plan(conv *c, ff_library_pass pass, ff_library_epilogue epilogue,
                      ff_library_conv **out, ff_error *error) {
    return plan_with(c, pass, FF_PROLOGUE_NONE, epilogue, out, error);
}

/* A fused graph that may not exist. */
static ff_status plan_fused(conv *c, ff_library_pass pass, ff_library_prologue prologue,
                            ff_library_epilogue epilogue, ff_library_conv **out, ff_error *error) {
    ff_error why = {0};
    ff_status status = plan_with(c, pass, prologue, epilogue, out, &why);
    if (status != FF_OK && error) *error = why;
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

/* All three passes with the norm in them, or none of them: a piece alone would have the others read
 * and write what it saves. */
static ff_status plan_folded(conv *c, ff_error *error) {
    const ff_conv_shape *s = &c->base.shape;
    const ff_library_prologue norm = FF_PROLOGUE_SCALE_SHIFT_RELU;
    if (s->statistics)
        FF_TRY(plan_fused(c, FF_PASS_FORWARD, norm, FF_EPILOGUE_STATISTICS, &c->sums, error));
    if (!c->sums)
        FF_TRY(plan_fused(c, FF_PASS_FORWARD, norm, FF_EPILOGUE_NONE, &c->forward, error));
    if (c->sums || c->forward)
        FF_TRY(plan_fused(c, FF_PASS_BACKWARD_WEIGHTS, norm, FF_EPILOGUE_NONE, &c->weights, error));
    if (c->weights)
        FF_TRY(plan_fused(c, FF_PASS_BACKWARD_DATA, FF_PROLOGUE_NONE,
                          FF_EPILOGUE_RELU_NORM_BACKWARD, &c->data, error));
    c->base.folded = c->data;
    if (!c->base.folded) drop_passes(c);
    return FF_OK;
}

/* Nanoseconds of a pass over `bytes`. */
static double pass_ns(const conv *c, uint64_t bytes) {
    return (double)bytes / c->self->bytes_per_ns;
}

static ff_status plan_apart(conv *c, ff_error *error) {
    const ff_conv_shape *s = &c->base.shape;
    if (s->bias)
        FF_TRY(
            plan_fused(c, FF_PASS_FORWARD, FF_PROLOGUE_NONE, FF_EPILOGUE_BIAS, &c->forward, error));
    c->biased = c->forward;
    if (!c->forward) FF_TRY(plan(c, FF_PASS_FORWARD, FF_EPILOGUE_NONE, &c->forward, error));
    if (s->statistics && !s->bias)
        FF_TRY(plan_fused(c, FF_PASS_FORWARD, FF_PROLOGUE_NONE, FF_EPILOGUE_STATISTICS, &c->sums,
                          error));
    if (c->sums && c->sums->engine.ns && c->forward->engine.ns &&
        (double)c->sums->engine.ns >
            (double)c->forward->engine.ns + pass_ns(c, ff_library_conv_bytes(&c->sums->spec).y)) {
        /* slower than a pass of its own */
        c->self->table->conv_destroy(c->self->library, c->sums);
        c->sums = NULL;
    }
    if (s->input_gradient)
        FF_TRY(plan(c, FF_PASS_BACKWARD_DATA, FF_EPILOGUE_NONE, &c->data, error));
    if (s->training && !s->frozen)
        FF_TRY(plan(c, FF_PASS_BACKWARD_WEIGHTS, FF_EPILOGUE_NONE, &c->weights, error));
    return FF_OK;
}

/* With the norm before it where that was timed to be faster. Folding saves passes over memory and
 * may cost tensor cores: without times for both the pieces are taken. */
static ff_status plan_all(conv *c, ff_error *error) {
    ff_cuda_compute *self = c->self;
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

ff_status ff_cuda_conv_create(ff_compute *compute, const ff_conv_shape *shape,
                              const ff_conv *sibling, ff_conv **out, ff_error *error) {
    (void)sibling; /* filters lie the same way for every batch */
    conv *c;
    *out = NULL;
    FF_TRY(ff_alloc(&c, 1, sizeof *c, "a convolution", error));
    c->self = (ff_cuda_compute *)compute;
    c->base.shape = *shape;
    const int inputs = ff_tensor_padded_channels(&shape->input);
    const int outputs = ff_tensor_padded_channels(&shape->output);
    c->base.weight_count =
        (size_t)outputs * (size_t)shape->kernel * (size_t)shape->kernel * (size_t)inputs;
    ff_status status = plan_all(c, error);
    if (status != FF_OK) {
        ff_cuda_conv_destroy(compute, &c->base);
        return status;
    }
    c->bias_bytes = ff_align_u64((uint64_t)outputs * sizeof(float), 256);
    c->base.scratch_bytes = c->workspace_bytes + c->bias_bytes +
                            ff_cuda_scratch(c->self->place.multiprocessors, outputs);
    c->base.statistics = c->sums;
    c->base.adds_bias = c->biased;
    *out = &c->base;
    return FF_OK;
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
    /* The norm before it: dx from its factors; or apply, then sums and dx (norm.h). */
    if (s->fold) ns += c->base.folded ? 3 * x : 7 * x;
    for (int i = 0; i < 3; i++) {
        if (!passes[i]) continue;
        if (!passes[i]->engine.ns) return 0;
        ns += (double)passes[i]->engine.ns;
    }
    return ns;
}

/* ---- weights ---- */

/* Between torch's [o][i][r][s] and the held [o][r][s][i], padded. */
static void permute(const ff_conv_shape *s, float *held, float *oihw, bool import) {
    const int inputs = ff_tensor_padded_channels(&s->input);
    const int taps = s->kernel * s->kernel;
    for (int o = 0; o < s->output.c; o++)
        for (int i = 0; i < s->input.c; i++)
            for (int tap = 0; tap < taps; tap++, oihw++) {
                float *at = held + ((size_t)o * taps + tap) * inputs + i;
                if (import)
                    *at = *oihw;
                else
                    *oihw = *at;
            }
}

void ff_cuda_conv_import(const ff_conv *base, const float *oihw, float *held) {
    memset(held, 0, base->weight_count * sizeof *held);
    permute(&base->shape, held, (float *)oihw, true);
}

void ff_cuda_conv_export(const ff_conv *base, const float *held, float *oihw) {
    permute(&base->shape, (float *)held, oihw, false);
}

/* ---- passes ---- */

static void run(const conv *c, ff_library_conv *pass, const ff_library_conv_arguments *arguments,
                void *scratch) {
    ff_cuda_compute *self = c->self;
    self->table->conv_run(self->library, pass, self->place.stream, arguments, scratch,
                          ff_compute_error(&self->base));
}

void ff_cuda_conv_forward(ff_compute *compute, ff_conv *base, const void *x, const void *w,
                          const void *bias, void *y, void *scratch) {
    const conv *c = (const conv *)base;
    const ff_library_conv_arguments arguments = {
        .x = (void *)x, .w = (void *)w, .y = y, .bias = c->biased ? bias : NULL};
    run(c, c->forward, &arguments, scratch);
    if (!bias || c->biased) return;
    /* The kernel takes a bias of f32. */
    const ff_cuda_place *place = &c->self->place;
    const int channels = ff_tensor_padded_channels(&base->shape.output);
    if (compute->dtype != FF_F32) {
        void *wide = (char *)scratch + c->workspace_bytes;
        ff_cuda_keep(compute,
                     ff_cuda_cast(place, (size_t)channels, bias, compute->dtype, wide, FF_F32),
                     "a convolution's bias");
        bias = wide;
    }
    ff_cuda_keep(compute, ff_cuda_bias(place, &base->shape.output, y, bias, y),
                 "a convolution's bias");
}

void ff_cuda_conv_forward_sums(ff_compute *compute, ff_conv *base, const void *x, const void *w,
                               void *y, float *sums, void *scratch) {
    const conv *c = (const conv *)base;
    (void)compute;
    const ff_library_conv_arguments arguments = {
        .x = (void *)x,
        .w = (void *)w,
        .y = y,
        .sum = sums,
        .square_sum = sums + ff_tensor_padded_channels(&base->shape.output),
    };
    run(c, c->sums, &arguments, scratch);
}

void ff_cuda_conv_backward_data(ff_compute *compute, ff_conv *base, const void *dy, const void *w,
                                void *dx, void *scratch) {
    const conv *c = (const conv *)base;
    (void)compute;
    const ff_library_conv_arguments arguments = {.x = dx, .w = (void *)w, .y = (void *)dy};
    run(c, c->data, &arguments, scratch);
}

void ff_cuda_conv_backward_weights(ff_compute *compute, ff_conv *base, const void *x,
                                   const void *dy, void *dw, float *dbias, void *scratch) {
    const conv *c = (const conv *)base;
    const ff_tensor *output = &base->shape.output;
    const ff_library_conv_arguments arguments = {.x = (void *)x, .w = dw, .y = (void *)dy};
    if (dw) run(c, c->weights, &arguments, scratch);
    if (!dbias) return;
    void *columns = (char *)scratch + c->workspace_bytes + c->bias_bytes;
    ff_cuda_keep(compute, ff_cuda_bias_gradient(&c->self->place, output, dy, dbias, columns),
                 "the gradient of a convolution's bias");
}

/* ---- with the norm before it in it ---- */

void ff_cuda_fold_forward(ff_compute *compute, ff_conv *base, const ff_fold *fold, const void *w,
                          void *y, float *sums, void *scratch) {
    const conv *c = (const conv *)base;
    (void)compute;
    ff_library_conv_arguments arguments = {
        .x = (void *)fold->norm.x,
        .w = (void *)w,
        .y = y,
        .scale = fold->scale,
        .shift = fold->shift,
    };
    if (c->sums) {
        arguments.sum = sums;
        arguments.square_sum = sums + ff_tensor_padded_channels(&base->shape.output);
    }
    run(c, c->sums ? c->sums : c->forward, &arguments, scratch);
}

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
