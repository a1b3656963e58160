/* A convolution and the max pool right after it, in chunks of the batch: the full-size output stays
 * in cache and is never stored for a whole batch (FF_FUSE_CONV_POOL). */
#include "train/net/ops/ops.h"

#include <stdio.h>

/* Bytes of a chunk's convolution output: they stay in the caches of two cores. */
enum { CHUNK_BYTES = 2 << 20 };

/* Samples per chunk: about CHUNK_BYTES, a multiple of the threads; fewer if that makes all chunks
 * equal. */
static int chunk_size(const ff_plan *plan, size_t sample_bytes) {
    const int threads = plan->compute->threads, batch = plan->batch;
    size_t fit = CHUNK_BYTES / sample_bytes / (size_t)threads * (size_t)threads;
    if (fit >= (size_t)batch) return batch;
    int most = fit < (size_t)threads ? threads : (int)fit;
    for (int chunk = most; chunk > most / 2 && chunk > 0; chunk -= threads)
        if (batch % chunk == 0) return chunk;
    return most < batch ? most : batch;
}

static ff_status choose(const ff_planner *b, ff_op *op, ff_error *error) {
    ff_plan *plan = b->plan;
    ff_compute *compute = plan->compute;
    ff_conv_pool_op *own = &op->conv_pool;
    const ff_conv *shared = b->sibling ? b->sibling->convs[op->layer] : NULL;
    ff_conv_shape shape = ff_op_conv_shape(plan, op);
    own->chunk = chunk_size(plan, ff_tensor_sample(&shape.output) * compute->element_bytes);
    shape.input.n = shape.output.n = own->chunk;
    own->middle = shape.output;
    FF_TRY(compute->ops->conv_create(compute, &shape, shared, &own->planned, error));
    plan->convs[op->layer] = own->planned;
    if (plan->batch % own->chunk == 0) return FF_OK;
    shape.input.n = shape.output.n = plan->batch % own->chunk;
    return compute->ops->conv_create(compute, &shape, own->planned, &own->tail, error);
}

static void destroy(ff_compute *compute, ff_op *op) {
    if (op->conv_pool.planned) compute->ops->conv_destroy(compute, op->conv_pool.planned);
    if (op->conv_pool.tail) compute->ops->conv_destroy(compute, op->conv_pool.tail);
}

static ff_status plan_forward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_plan *plan = b->plan;
    ff_conv_pool_op *own = &op->conv_pool;
    ff_planner_share(b, own->planned->scratch_bytes);
    if (own->tail) ff_planner_share(b, own->tail->scratch_bytes);
    if (plan->training)
        FF_TRY(ff_plan_buffer(plan, FF_ARENA_ACTIVATIONS, ff_tensor_count(&op->output), now,
                              &own->index, error));
    return ff_plan_buffer(plan, FF_ARENA_SCRATCH,
                          ff_tensor_count(&own->middle) * plan->compute->element_bytes, now,
                          &own->room, error);
}

/* Floats of the bias's gradient, up to a multiple of 16. */
static size_t bias_floats(const ff_op *op) {
    return ((size_t)ff_tensor_padded_channels(&op->conv_pool.middle) + 15) / 16 * 16;
}

static ff_status plan_backward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_conv_pool_op *own = &op->conv_pool;
    const size_t weights = own->planned->weight_count, element = b->plan->compute->element_bytes;
    ff_plan_use(b->plan, own->room, now);
    ff_plan_use(b->plan, own->index, now);
    FF_TRY(ff_plan_buffer(b->plan, FF_ARENA_SCRATCH,
                          bias_floats(op) * sizeof(float) + weights * element, now, &own->partial,
                          error));
    if (element < sizeof(float) && own->chunk < op->input.n)
        FF_TRY(ff_plan_buffer(b->plan, FF_ARENA_SCRATCH, weights * sizeof(float), now, &own->sums,
                              error));
    ff_plan_use(b->plan, op->x, now);
    return ff_planner_give_input(b, op, now, error);
}

/* A chunk of the samples: its convolution and addresses. */
typedef struct chunk {
    ff_conv *conv;
    ff_tensor middle;
    const char *x;
    char *dx, *y, *dy;
    uint8_t *index;
} chunk;

static char *from_byte(void *memory, size_t bytes) {
    return memory ? (char *)memory + bytes : NULL;
}

/* The chunk that begins at sample `from`. */
static chunk chunk_at(const ff_pass *pass, const ff_op *op, int from) {
    const ff_conv_pool_op *own = &op->conv_pool;
    const size_t input = (size_t)from * ff_tensor_sample(&op->input);
    const size_t output = (size_t)from * ff_tensor_sample(&op->output);
    const size_t bytes = pass->compute->element_bytes;
    const int left = op->input.n - from;
    chunk c = {
        .conv = left < own->chunk ? own->tail : own->planned,
        .middle = own->middle,
        .x = from_byte(ff_pass_at(pass, op->x), input * bytes),
        .dx = from_byte(ff_pass_at(pass, op->dx), input * bytes),
        .y = from_byte(ff_pass_at(pass, op->y), output * bytes),
        .dy = from_byte(ff_pass_at(pass, op->dy), output * bytes),
    };
    if (left < own->chunk) c.middle.n = left;
    if (pass->training) c.index = (uint8_t *)from_byte(ff_pass_at(pass, own->index), output);
    return c;
}

static void forward(const ff_pass *pass, const ff_op *op) {
    void *room = ff_pass_at(pass, op->conv_pool.room);
    for (int from = 0; from < op->input.n; from += op->conv_pool.chunk) {
        const chunk c = chunk_at(pass, op, from);
        pass->table->conv_forward(pass->compute, c.conv, c.x, ff_pass_working(pass, op, 0),
                                  ff_pass_bias(pass, op), room, ff_pass_scratch(pass));
        const ff_pool pool = ff_op_pool_of(pass->plan, op->conv_pool.pool, op, &c.middle);
        pass->table->pool_forward(pass->compute, &pool, room, c.y, c.index);
    }
}

/* sums = (first ? 0 : sums) + a chunk's gradient. */
static void add_gradient(const ff_pass *pass, size_t count, const void *gradient, ff_dtype dtype,
                         float *sums, bool first) {
    const ff_gradient_sum sum = {.count = count,
                                 .gradient = gradient,
                                 .dtype = dtype,
                                 .sums = sums,
                                 .first = first,
                                 .weight = 1};
    pass->table->sum_gradients(pass->compute, &sum);
}

/* The gradients of a chunk's convolution. Those of the first chunk are the first of the sums: `dw`
 * and `dbias` themselves, except 16-bit `dw`, whose sums are apart until the last chunk. */
static void add_chunk(const ff_pass *pass, const ff_op *op, const chunk *c, bool first, void *dw,
                      float *dbias) {
    const ff_conv_pool_op *own = &op->conv_pool;
    float *sums = ff_pass_at(pass, own->sums), *partial_bias = ff_pass_at(pass, own->partial);
    void *partial = partial_bias + bias_floats(op);
    const size_t outputs = (size_t)ff_tensor_padded_channels(&own->middle);
    void *to = sums || !first ? partial : dw;
    pass->table->conv_backward_weights(pass->compute, c->conv, c->x, ff_pass_at(pass, own->room),
                                       dw ? to : NULL, dbias && !first ? partial_bias : dbias,
                                       ff_pass_scratch(pass));
    if (dw && to == partial)
        add_gradient(pass, own->planned->weight_count, partial, pass->compute->dtype,
                     sums ? sums : dw, sums && first);
    if (dbias && !first) add_gradient(pass, outputs, partial_bias, FF_F32, dbias, false);
}

static void backward(const ff_pass *pass, const ff_op *op) {
    const ff_conv_pool_op *own = &op->conv_pool;
    const ff_compute_ops *table = pass->table;
    void *room = ff_pass_at(pass, own->room), *dw = ff_pass_gradient(pass, op, 0);
    float *dbias = ff_pass_bias_gradient(pass, op), *sums = ff_pass_at(pass, own->sums);
    for (int from = 0; from < op->input.n; from += own->chunk) {
        const chunk c = chunk_at(pass, op, from);
        const ff_pool pool = ff_op_pool_of(pass->plan, own->pool, op, &c.middle);
        table->pool_backward(pass->compute, &pool, c.dy, c.index, room);
        if (dw || dbias) add_chunk(pass, op, &c, from == 0, dw, dbias);
        if (c.dx)
            table->conv_backward_data(pass->compute, c.conv, room, ff_pass_working(pass, op, 0),
                                      c.dx, ff_pass_scratch(pass));
    }
    if (dw && sums)
        table->cast(pass->compute, own->planned->weight_count, 1, sums, FF_F32, dw,
                    pass->compute->dtype);
}

static void conv_pool_describe(const ff_plan *plan, const ff_op *op, bool forward,
                               char text[FF_OP_NAME]) {
    const ff_layer *conv = &plan->graph->layers[op->layer];
    const ff_layer *pool = &plan->graph->layers[op->conv_pool.pool];
    (void)forward;
    snprintf(text, FF_OP_NAME, "conv %dx%d /%d%s, max pool %dx%d /%d", conv->kernel_h,
             conv->kernel_w, conv->stride, conv->bias ? ", bias" : "", pool->kernel_h,
             pool->kernel_w, pool->stride);
}

const ff_op_type ff_op_conv_pool = {
    .name = "conv, pool",
    .choose = choose,
    .destroy = destroy,
    .plan_forward = plan_forward,
    .plan_backward = plan_backward,
    .forward = forward,
    .backward = backward,
    .describe = conv_pool_describe,
};
