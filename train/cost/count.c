/* The compute table that adds up the work of the CUDA table's entries (cuda/compute*.c). The bytes
 * of our own kernels are those in the headers of train/compute/cuda/kernels, "Reads ..., writes
 * ...". */
#include "train/cost/count.h"
#include "train/net/ops/ops.h"

#include <assert.h>
#include <stddef.h>

/* Rough operations per element; erf and exp as series. */
enum { AFFINE_FLOPS = 2, GELU_FLOPS = 25, NORM_BACKWARD_FLOPS = 12, SOFTMAX_FLOPS = 40 };

static double bytes_of(const ff_compute *compute, const ff_tensor *t) {
    return (double)(ff_tensor_count(t) * compute->element_bytes);
}

/* ---- rows ---- */

static void name_row(const ff_plan *plan, const ff_op *op, bool forward, ff_cost_row *row) {
    snprintf(row->layer, sizeof row->layer, "%s", plan->graph->layers[op->layer].name);
    ff_op_describe(plan, op, forward, row->what);
}

/* Begins a row of the plan: forward, loss, backward. */
static void begins(void *context, ff_mark mark, int op) {
    static const ff_cost_pass passes[] = {[FF_MARK_FORWARD] = FF_COST_FORWARD,
                                          [FF_MARK_LOSS] = FF_COST_LOSS,
                                          [FF_MARK_BACKWARD] = FF_COST_BACKWARD};
    ff_cost_counter *c = context;
    ff_cost_row row = {.pass = passes[mark], .mark = mark, .op = op};
    if (mark == FF_MARK_LOSS)
        snprintf(row.what, sizeof row.what, "cross-entropy and its gradient");
    else
        name_row(c->plan, &c->plan->ops[op], mark == FF_MARK_FORWARD, &row);
    if (c->base.failure.status != FF_OK) return;
    if (ff_cost_add_row(c->costs, &row, ff_compute_error(&c->base)) != FF_OK) return;
}

/* ---- convolutions ---- */

/* The number of `size` positions along a side that the windows cover: a 1x1 window of stride 2
 * reads half. */
static double touched(int out, int window, int stride, int size) {
    const int reached = stride > window ? out * window : size;
    return reached < size ? reached : size;
}

/* The bytes of the input that a convolution reads. */
static double read_of(const ff_compute *compute, const ff_conv_shape *s) {
    const double share = touched(s->output.h, s->kernel, s->stride, s->input.h) / s->input.h *
                         touched(s->output.w, s->kernel, s->stride, s->input.w) / s->input.w;
    return share * bytes_of(compute, &s->input);
}

/* Operations of each of the three passes: all taps, including those in the padding. */
static double conv_flops(const ff_conv_shape *s) {
    const int inputs =
        s->groups > 1 ? s->input.c / s->groups : ff_tensor_padded_channels(&s->input);
    return 2.0 * (double)ff_tensor_count(&s->output) * s->kernel * s->kernel * inputs;
}

static void convolve(ff_compute *compute, const ff_conv *conv, double x_bytes, double more) {
    const double w = (double)(conv->weight_count * compute->element_bytes);
    const double bytes = x_bytes + w + bytes_of(compute, &conv->shape.output) + more;
    if (conv->depthwise)
        ff_cost_arrays(compute, bytes, conv_flops(&conv->shape), 1);
    else
        ff_cost_product(compute, compute->precision, bytes, conv_flops(&conv->shape));
}

static void conv_forward(ff_compute *compute, ff_conv *conv, const void *x, const void *w,
                         const void *bias, void *y, void *scratch) {
    (void)x, (void)w, (void)y, (void)scratch;
    const ff_tensor *out = &conv->shape.output;
    convolve(compute, conv, read_of(compute, &conv->shape), 0);
    if (!bias || conv->adds_bias) return;
    if (compute->dtype != FF_F32)
        ff_cost_count(compute, (ff_cost_piece){.nodes = 1}); /* the bias in f32 */
    ff_cost_arrays(compute, 2 * bytes_of(compute, out), (double)ff_tensor_count(out), 1);
}

static void conv_forward_fused(ff_compute *compute, ff_conv *conv, const void *x,
                               const ff_fold *fold, const void *w, void *y, float *sums,
                               void *scratch) {
    (void)x, (void)fold, (void)w, (void)y, (void)sums, (void)scratch;
    convolve(compute, conv, read_of(compute, &conv->shape), 0);
}

/* All of dx is written, even positions of x that no window reads. */
static void conv_backward_data(ff_compute *compute, ff_conv *conv, const void *dy, const void *w,
                               void *dx, void *scratch) {
    (void)dy, (void)w, (void)dx, (void)scratch;
    convolve(compute, conv, bytes_of(compute, &conv->shape.input), 0);
}

static void conv_backward_weights(ff_compute *compute, ff_conv *conv, const void *x, const void *dy,
                                  void *dw, float *dbias, void *scratch) {
    (void)x, (void)dy, (void)scratch;
    const ff_tensor *out = &conv->shape.output;
    if (dw) convolve(compute, conv, read_of(compute, &conv->shape), 0);
    if (dw && conv->depthwise) /* kernels that finish and convert the sums */
        ff_cost_count(compute, (ff_cost_piece){.nodes = 1 + (compute->dtype != FF_F32)});
    if (dbias) ff_cost_arrays(compute, bytes_of(compute, out), (double)ff_tensor_count(out), 2);
}

/* ---- norms ---- */

static double a_of(const ff_compute *compute, const ff_norm *norm) {
    return bytes_of(compute, &norm->shape);
}
static double mask_of(const ff_compute *compute, const ff_norm *norm) {
    return norm->mask ? (double)compute->ops->norm_mask(compute, &norm->shape) : 0;
}

static void statistics(ff_compute *compute, const ff_norm *norm) {
    if (norm->sums || norm->held)
        ff_cost_count(compute, (ff_cost_piece){.nodes = 1});
    else if (!norm->counted)
        ff_cost_arrays(compute, a_of(compute, norm),
                       AFFINE_FLOPS * (double)ff_tensor_count(&norm->shape), 2);
}

static void norm_train(ff_compute *compute, const ff_norm *norm, float *scratch) {
    (void)scratch;
    const double per_element =
        AFFINE_FLOPS + (norm->activation == FF_ACTIVATION_GELU ? GELU_FLOPS : 0);
    statistics(compute, norm);
    if (!norm->y) return;
    ff_cost_arrays(compute, (norm->residual ? 3 : 2) * a_of(compute, norm) + mask_of(compute, norm),
                   per_element * (double)ff_tensor_count(&norm->shape), 1);
}

/* As in norm.h, ff_cuda_norm_backward: sums, factors, dx. */
static void norm_backward(ff_compute *compute, const ff_norm_backward *norm, float *scratch) {
    (void)scratch;
    const ff_norm *forward = &norm->forward;
    const double a = a_of(compute, forward), count = (double)ff_tensor_count(&forward->shape);
    const bool reads_y =
        forward->activation == FF_ACTIVATION_RELU && forward->residual && !forward->mask;
    const double slope = (norm->dy2 ? a : 0) + (reads_y ? a : 0) + mask_of(compute, forward);
    const double gelu = forward->activation == FF_ACTIVATION_GELU ? GELU_FLOPS : 0;
    ff_cost_arrays(compute, 2 * a + slope + (norm->dresidual ? a : 0),
                   (NORM_BACKWARD_FLOPS / 2 + gelu) * count, 2);
    const double passed =
        norm->pool ? a / (double)compute->element_bytes + bytes_of(compute, &norm->pool->input) : a;
    ff_cost_arrays(compute, 2 * a + passed + (norm->dresidual ? 0 : slope),
                   (NORM_BACKWARD_FLOPS / 2 + gelu) * count, 1);
}

static void fold_norm(ff_compute *compute, const ff_fold *fold, bool training, float *scratch) {
    (void)training, (void)scratch;
    statistics(compute, &fold->norm);
    ff_cost_count(compute, (ff_cost_piece){.nodes = 1});
}

static void fold_backward(ff_compute *compute, ff_conv *conv, const ff_fold *fold, const void *w,
                          const void *dy, void *g, void *dw, void *scratch) {
    (void)w, (void)dy, (void)g, (void)dw, (void)scratch;
    convolve(compute, conv, read_of(compute, &conv->shape), 0);
    convolve(compute, conv, bytes_of(compute, &conv->shape.input), a_of(compute, &fold->norm));
}

static void fold_finish(ff_compute *compute, const ff_fold *fold, const void *g, void *dx) {
    (void)g, (void)dx;
    ff_cost_arrays(compute, 3 * a_of(compute, &fold->norm),
                   2.0 * AFFINE_FLOPS * (double)ff_tensor_count(&fold->norm.shape), 1);
}

/* ---- pools ---- */

/* Bytes read from x, and bytes of y and of the positions of the maxima. */
static double pool_bytes(const ff_compute *compute, const ff_pool *pool, bool places) {
    const double share =
        touched(pool->output.h, pool->kernel_h, pool->stride, pool->input.h) / pool->input.h *
        touched(pool->output.w, pool->kernel_w, pool->stride, pool->input.w) / pool->input.w;
    return share * bytes_of(compute, &pool->input) + bytes_of(compute, &pool->output) +
           (places ? (double)ff_tensor_count(&pool->output) : 0);
}
static double pool_flops(const ff_pool *pool) {
    if (pool->adaptive) return (double)ff_tensor_count(&pool->input);
    return (double)ff_tensor_count(&pool->output) * pool->kernel_h * pool->kernel_w;
}

static void pool_forward(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                         uint8_t *index) {
    (void)x, (void)y;
    ff_cost_arrays(compute, pool_bytes(compute, pool, pool->max && index), pool_flops(pool), 1);
}

static void pool_norm(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                      uint8_t *index, const ff_norm *norm, float *scratch) {
    (void)x, (void)y, (void)norm, (void)scratch;
    ff_cost_arrays(compute, pool_bytes(compute, pool, pool->max && index), pool_flops(pool), 2);
}

static void pool_backward(ff_compute *compute, const ff_pool *pool, const void *dy,
                          const uint8_t *index, void *dx) {
    (void)dy, (void)index, (void)dx;
    ff_cost_arrays(compute,
                   bytes_of(compute, &pool->input) + bytes_of(compute, &pool->output) +
                       (pool->max ? (double)ff_tensor_count(&pool->output) : 0),
                   pool_flops(pool), 1);
}

/* ---- linear layers, elementwise passes, the loss ---- */

static void linear_forward(ff_compute *compute, const ff_linear *linear, const void *x,
                           const void *w, const float *bias, void *y) {
    (void)x, (void)w, (void)y;
    const double inputs = (double)ff_tensor_sample(&linear->input), n = linear->input.n;
    const double e = (double)compute->element_bytes, outputs = linear->outputs;
    const double y_bytes = n * outputs * (linear->logits ? sizeof(float) : e);
    ff_cost_product(compute, compute->precision, (n + outputs) * inputs * e + y_bytes,
                    2 * n * inputs * outputs);
    if (bias) ff_cost_arrays(compute, 2 * y_bytes, n * outputs, 1);
}

static void linear_backward(ff_compute *compute, const ff_linear *linear, const void *x,
                            const void *w, const void *dy, void *dx, void *dw, float *dbias,
                            void *scratch) {
    (void)x, (void)w, (void)dy, (void)scratch;
    const double inputs = (double)ff_tensor_sample(&linear->input), n = linear->input.n;
    const double e = (double)compute->element_bytes, outputs = linear->outputs;
    const double bytes = ((n + outputs) * inputs + n * outputs) * e;
    if (dw) ff_cost_product(compute, compute->precision, bytes, 2 * n * inputs * outputs);
    if (dx) ff_cost_product(compute, compute->precision, bytes, 2 * n * inputs * outputs);
    if (dbias) ff_cost_arrays(compute, n * outputs * e, n * outputs, 2);
}

static void arrays(ff_compute *compute, size_t count, int number, double flops) {
    ff_cost_arrays(compute, (double)(count * compute->element_bytes) * number,
                   flops * (double)count, 1);
}
static void activation_forward(ff_compute *compute, ff_activation activation, size_t count,
                               const void *x, void *y) {
    (void)x, (void)y;
    arrays(compute, count, 2, activation == FF_ACTIVATION_GELU ? GELU_FLOPS : 1);
}
static void activation_backward(ff_compute *compute, ff_activation activation, size_t count,
                                const void *seen, const void *dy, void *dx) {
    (void)seen, (void)dy, (void)dx;
    arrays(compute, count, 3, activation == FF_ACTIVATION_GELU ? GELU_FLOPS : 1);
}
static void activation_bias_backward(ff_compute *compute, ff_activation activation,
                                     const ff_tensor *shape, const void *seen, const void *dy,
                                     void *dx, float *dbias, float *scratch) {
    (void)seen, (void)dy, (void)dbias, (void)scratch;
    const double slope = activation == FF_ACTIVATION_GELU ? GELU_FLOPS : 1;
    ff_cost_arrays(compute, (dx ? 3 : 2) * bytes_of(compute, shape),
                   (slope + 1) * (double)ff_tensor_count(shape), 2);
}
static void add(ff_compute *compute, size_t count, const void *a, const void *b, void *to) {
    (void)a, (void)b, (void)to;
    arrays(compute, count, 3, 1);
}
static void dropout(ff_compute *compute, const ff_dropout *dropout, const void *x, void *y) {
    (void)x, (void)y;
    arrays(compute, ff_tensor_count(&dropout->shape), 2, GELU_FLOPS);
}
static ff_status copy(ff_device *device, ff_stream *stream, void *to, const void *from,
                      uint64_t bytes, ff_error *error) {
    (void)stream, (void)to, (void)from, (void)error;
    ff_cost_counter *c = (ff_cost_counter *)((char *)device - offsetof(ff_cost_counter, device));
    ff_cost_arrays(&c->base, 2.0 * (double)bytes, 0, 1);
    return FF_OK;
}

/* The labels, then one row per sample, then the sums over the rows. */
static void loss(ff_compute *compute, const ff_loss *loss) {
    const double n = loss->n, each = sizeof(double) + sizeof(float);
    const double labels =
        n * (double)(ff_dtype_bytes(loss->label_dtype) + (loss->weights ? sizeof(float) : 0) +
                     (loss->mix ? sizeof(float) : 0));
    const double cells = n * loss->stride;
    ff_cost_arrays(compute, labels, 0, 1);
    ff_cost_arrays(
        compute,
        labels + cells * (double)(sizeof(float) + (loss->gradient ? compute->element_bytes : 0)) +
            n * each,
        SOFTMAX_FLOPS * cells, 1);
    ff_cost_arrays(compute, n * each, 2 * n, 1);
}

/* ---- the table ---- */

static ff_status make_current(ff_device *device, ff_error *error) {
    (void)device, (void)error;
    return FF_OK;
}
static const ff_device_table device_table = {
    .name = "none", .make_current = make_current, .copy = copy};

static size_t norm_mask(const ff_compute *compute, const ff_tensor *shape) {
    return ff_tensor_count(shape) / (compute->dtype == FF_F32 ? 4 : 8);
}

static const ff_compute_ops ops = {
    .name = "count",
    .conv_forward = conv_forward,
    .conv_forward_fused = conv_forward_fused,
    .conv_backward_data = conv_backward_data,
    .conv_backward_weights = conv_backward_weights,
    .fold_norm = fold_norm,
    .fold_backward = fold_backward,
    .fold_finish = fold_finish,
    .norm_mask = norm_mask,
    .norm_train = norm_train,
    .norm_backward = norm_backward,
    .pool_forward = pool_forward,
    .pool_norm = pool_norm,
    .pool_backward = pool_backward,
    .linear_forward = linear_forward,
    .linear_backward = linear_backward,
    .activation_forward = activation_forward,
    .activation_backward = activation_backward,
    .activation_bias_backward = activation_bias_backward,
    .add = add,
    .dropout = dropout,
    .loss = loss,
    .update_create = ff_cost_update_create,
};

ff_status ff_cost_count_step(ff_costs *costs, ff_plan *plan, ff_error *error) {
    ff_cost_counter c = {.base = *plan->compute, .device = {.table = &device_table}, .plan = plan};
    const ff_batch batch = {.label_dtype = FF_I32};
    ff_plan counted = *plan;
    c.costs = costs;
    c.watch = (ff_compute_watch){.begins = begins, .context = &c};
    c.base.ops = &ops;
    c.base.device = &c.device;
    c.base.failure = (ff_error){0};
    c.base.watch = &c.watch;
    counted.compute = &c.base;
    ff_plan_enqueue(&counted, &batch, true, NULL, 1, NULL);
    FF_TRY(ff_compute_check(&c.base, error));
    return ff_cost_count_update(&c, plan->store, error);
}
