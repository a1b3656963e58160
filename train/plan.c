/* From operations to a plan: shapes, algorithms, buffers. */
#include "train/plan.h"

#include "format/base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a convolution's output that a chunk of CONV_POOL works on: what stays in the caches of
 * two cores. */
enum { CHUNK_BYTES = 2 << 20 };
/* Times before and after all others: of what lives as long as the plan. */
enum { BEGINNING = -1, END = 1 << 30 };

/* What is known while buffers are planned. */
typedef struct builder {
    ff_plan *plan;
    const ff_plan *sibling;
    ff_buffer_id *values;                    /* [layers] */
    ff_buffer_id (*gradients)[FF_MAX_USERS]; /* [layers] */
    int *gradient_count;
} builder;

static int forward_time(const ff_plan *plan, const ff_op *op) {
    return (int)(op - plan->ops);
}
static int loss_time(const ff_plan *plan) {
    return plan->op_count;
}
static int backward_time(const ff_plan *plan, const ff_op *op) {
    return 2 * plan->op_count - forward_time(plan, op);
}

/* ---- shapes ---- */

static ff_status plan_tensors(ff_plan *plan, const ff_plan *sibling, ff_error *error) {
    const ff_graph *graph = plan->graph;
    const ff_compute_ops *ops = plan->compute->ops;
    for (int i = 0; i < graph->layer_count; i++) {
        const ff_layer *layer = &graph->layers[i];
        ff_tensor *t = &plan->tensors[i];
        *t = (ff_tensor){plan->batch, layer->c, layer->h, layer->w, 1};
        switch (layer->kind) {
        case FF_LAYER_INPUT:
            t->block = sibling ? sibling->tensors[i].block : ops->input_block(plan->compute, t->c);
            break;
        case FF_LAYER_CONV: t->block = ops->channel_block(plan->compute, t->c); break;
        case FF_LAYER_LINEAR: t->block = ops->row_block(plan->compute, t->c); break;
        default: t->block = plan->tensors[layer->from].block;
        }
        uint64_t count = (uint64_t)t->n * (uint64_t)ff_tensor_padded_channels(t), bytes;
        if (!ff_mul_u64(count, (uint64_t)t->h * (uint64_t)t->w, &count) ||
            !ff_mul_u64(count, sizeof(float), &bytes) || bytes > UINT64_C(1) << 46)
            return ff_fail(error, FF_USAGE, "%s: %d samples of [%d, %d, %d] are beyond any memory",
                           layer->name, t->n, t->c, t->h, t->w);
        if (layer->kind == FF_LAYER_ADD && plan->tensors[layer->from2].block != t->block)
            return ff_fail(error, FF_USAGE, "%s: images cannot be added to activations",
                           layer->name);
        uint64_t values = (uint64_t)t->n * (uint64_t)t->h * (uint64_t)t->w;
        if (layer->kind == FF_LAYER_NORM && plan->training && values == 1)
            return ff_fail(error, FF_USAGE,
                           "%s: a batch norm over one value a channel (1 sample, 1x1 pixels) has "
                           "no variance to train with; use a larger batch or larger images",
                           layer->name);
    }
    return FF_OK;
}

/* The gradient of a value is wanted where a parameter whose gradient is made comes before it. */
static void plan_wanted(ff_plan *plan) {
    const ff_graph *graph = plan->graph;
    for (int p = 0; p < graph->parameter_count; p++)
        if (ff_plan_trains_parameter(plan, p)) plan->wanted[graph->parameters[p].layer] = true;
    for (int i = 1; i < graph->layer_count; i++) {
        const ff_layer *layer = &graph->layers[i];
        plan->wanted[i] |= plan->wanted[layer->from];
        if (layer->from2 >= 0) plan->wanted[i] |= plan->wanted[layer->from2];
    }
}

/* The value that a view shows. */
static ff_node origin(const ff_plan *plan, ff_node node) {
    while (plan->graph->layers[node].kind == FF_LAYER_FLATTEN)
        node = plan->graph->layers[node].from;
    return node;
}

/* ---- convolutions ---- */

/* Samples a chunk: about CHUNK_BYTES, in shares for all threads; a little less where that makes all
 * chunks equal. */
static int chunk_size(const ff_plan *plan, size_t sample_bytes) {
    const int threads = plan->compute->threads, batch = plan->batch;
    size_t fit = CHUNK_BYTES / sample_bytes / (size_t)threads * (size_t)threads;
    if (fit >= (size_t)batch) return batch;
    int most = fit < (size_t)threads ? threads : (int)fit;
    for (int chunk = most; chunk > most / 2 && chunk > 0; chunk -= threads)
        if (batch % chunk == 0) return chunk;
    return most < batch ? most : batch;
}

static ff_conv_shape conv_shape(const ff_plan *plan, const ff_op *op) {
    const ff_layer *layer = &plan->graph->layers[op->layer];
    return (ff_conv_shape){
        .input = op->input,
        .output = plan->tensors[op->layer],
        .kernel = layer->kernel_h,
        .stride = layer->stride,
        .pad = layer->pad,
        .bias = layer->bias,
        .input_gradient = plan->training && plan->wanted[op->from],
        .training = plan->training,
        .frozen = !ff_op_trains(plan, op, 0),
        .statistics = op->counts_for >= 0,
        .fold = op->folds >= 0,
        .gradient_zeroed = op->kind == FF_OP_CONV, /* the store's; chunks share a buffer */
    };
}

/* Where nothing but convolutions reads the images, their block is the compute's choice. */
static ff_status choose_images(ff_plan *plan, ff_error *error) {
    const ff_graph *graph = plan->graph;
    const ff_compute_ops *ops = plan->compute->ops;
    ff_conv_shape *shapes;
    int count = 0, readers = 0;
    for (int i = 1; i < graph->layer_count; i++)
        readers += graph->layers[i].from == 0 || graph->layers[i].from2 == 0;
    FF_TRY(ff_alloc(&shapes, (uint64_t)plan->op_count, sizeof *shapes, "a plan", error));
    for (int i = 0; i < plan->op_count; i++)
        if (plan->ops[i].kind == FF_OP_CONV && plan->ops[i].from == 0)
            shapes[count++] = conv_shape(plan, &plan->ops[i]);
    ff_status status = FF_OK;
    if (count == readers) status = ops->choose_input_block(plan->compute, shapes, count, error);
    free(shapes);
    if (status != FF_OK) return status;
    ff_tensor *images = &plan->tensors[0];
    images->block = ops->input_block(plan->compute, images->c);
    for (int i = 0; i < plan->op_count; i++)
        if (plan->ops[i].from == 0) plan->ops[i].input = *images;
    return FF_OK;
}

static ff_status plan_conv(const builder *b, ff_op *op, ff_error *error) {
    ff_plan *plan = b->plan;
    const ff_layer *layer = &plan->graph->layers[op->layer];
    const ff_conv *shared = b->sibling ? b->sibling->convs[op->layer] : NULL;
    ff_conv_shape shape = conv_shape(plan, op);
    op->chunk = plan->batch;
    if (op->kind == FF_OP_CONV_POOL) {
        op->chunk =
            chunk_size(plan, ff_tensor_sample(&shape.output) * plan->compute->element_bytes);
    }
    const ff_compute_ops *ops = plan->compute->ops;
    shape.input.n = shape.output.n = op->chunk;
    op->middle = shape.output;
    ff_status status = ops->conv_create(plan->compute, &shape, shared, &op->conv, error);
    if (status == FF_OK && plan->batch % op->chunk) {
        shape.input.n = shape.output.n = plan->batch % op->chunk;
        status = ops->conv_create(plan->compute, &shape, op->conv, &op->tail, error);
    }
    plan->convs[op->layer] = op->conv;
    if (status == FF_OK && op->counts_for >= 0 && !op->conv->statistics) {
        plan->ops[op->counts_for].counted_by = -1;
        op->counts_for = -1;
    }
    if (status == FF_OK && op->folds >= 0 && !op->conv->folded) {
        plan->ops[op->folds].folded_by = -1;
        op->folds = -1;
    }
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "%s", layer->name);
}

static size_t linear_scratch(const ff_plan *plan, const ff_op *op) {
    const ff_compute_ops *ops = plan->compute->ops;
    const ff_linear linear = {.input = op->input,
                              .outputs = ff_tensor_padded_channels(&op->output),
                              .logits = op->out == plan->graph->output};
    if (op->kind != FF_OP_LINEAR || !ops->linear_scratch) return 0;
    return ops->linear_scratch(plan->compute, &linear);
}

/* Bytes that convolutions and linear layers share. */
static size_t conv_scratch(const ff_plan *plan) {
    size_t most = 0;
    for (int i = 0; i < plan->op_count; i++) {
        const ff_conv *convs[2] = {plan->ops[i].conv, plan->ops[i].tail};
        for (int k = 0; k < 2; k++)
            if (convs[k] && convs[k]->scratch_bytes > most) most = convs[k]->scratch_bytes;
        const size_t linear = linear_scratch(plan, &plan->ops[i]);
        if (linear > most) most = linear;
    }
    return most;
}

/* ---- buffers of the forward pass ---- */

/* Bytes of an element: the logits are f32 always. */
static size_t value_bytes(const ff_plan *plan, ff_node node) {
    return node == plan->graph->output ? sizeof(float) : plan->compute->element_bytes;
}

/* What the backward pass of a ReLU after an addition is to read in place of its output. */
static ff_status plan_mask(ff_plan *plan, ff_op *op, int now, ff_error *error) {
    const ff_compute_ops *table = plan->compute->ops;
    if (!plan->training || !table->norm_mask || op->from2 < 0) return FF_OK;
    if (op->activation != FF_ACTIVATION_RELU) return FF_OK;
    return ff_plan_buffer(plan, FF_ARENA_ACTIVATIONS, table->norm_mask(plan->compute, &op->output),
                          now, &op->index, error);
}

static ff_status plan_forward(builder *b, ff_op *op, ff_error *error) {
    ff_plan *plan = b->plan;
    const int now = forward_time(plan, op);
    const size_t count = ff_tensor_count(&op->output);
    op->x = b->values[origin(plan, op->from)];
    ff_plan_use(plan, op->x, now);
    if (op->from2 >= 0) {
        op->x2 = b->values[origin(plan, op->from2)];
        ff_plan_use(plan, op->x2, now);
    }
    if (op->folded_by >= 0) {
        const size_t bytes =
            2 * (size_t)ff_tensor_padded_channels(&op->output) * plan->compute->element_bytes;
        FF_TRY(ff_plan_buffer(plan, FF_ARENA_ACTIVATIONS, bytes, now, &op->fold, error));
        ff_plan_use(plan, op->fold, forward_time(plan, &plan->ops[op->folded_by]));
        b->values[op->out] = op->x;
    } else {
        FF_TRY(ff_plan_buffer(plan, FF_ARENA_ACTIVATIONS, count * value_bytes(plan, op->out), now,
                              &op->y, error));
        b->values[op->out] = op->y;
    }
    if (op->kind == FF_OP_NORM) {
        size_t channels = (size_t)ff_tensor_padded_channels(&op->output);
        FF_TRY(ff_plan_buffer(plan, FF_ARENA_ACTIVATIONS, 2 * channels * sizeof(float), now,
                              &op->saved, error));
        if (op->counted_by >= 0) ff_plan_use(plan, op->saved, op->counted_by);
        FF_TRY(plan_mask(plan, op, now, error));
    }
    if (op->kind == FF_OP_CONV && op->counts_for >= 0) {
        size_t channels = (size_t)ff_tensor_padded_channels(&op->output);
        FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH, 2 * channels * sizeof(float), now, &op->sums,
                              error));
        ff_plan_use(plan, op->sums, op->counts_for);
    }
    bool max_pool = plan->graph->layers[op->layer].kind == FF_LAYER_MAX_POOL;
    if (plan->training && (op->kind == FF_OP_CONV_POOL || (op->kind == FF_OP_POOL && max_pool)))
        FF_TRY(ff_plan_buffer(plan, FF_ARENA_ACTIVATIONS, count, now, &op->index, error));
    if (op->kind == FF_OP_CONV_POOL)
        FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH,
                              ff_tensor_count(&op->middle) * plan->compute->element_bytes, now,
                              &op->room, error));
    return FF_OK;
}

/* ---- buffers of the backward pass ---- */

static ff_status give(builder *b, ff_node node, ff_buffer_id buffer, ff_error *error) {
    node = origin(b->plan, node);
    if (b->gradient_count[node] == FF_MAX_USERS)
        return ff_fail(error, FF_USAGE, "%s: a value with more than %d users",
                       b->plan->graph->layers[node].name, FF_MAX_USERS);
    b->gradients[node][b->gradient_count[node]++] = buffer;
    return FF_OK;
}

/* A new buffer for the gradient of `node`. */
static ff_status give_new(builder *b, ff_node node, int now, ff_buffer_id *id, ff_error *error) {
    size_t count = ff_tensor_count(&b->plan->tensors[node]);
    const size_t bytes = b->plan->compute->element_bytes;
    FF_TRY(ff_plan_buffer(b->plan, FF_ARENA_SCRATCH, count * bytes, now, id, error));
    return give(b, node, *id, error);
}

/* Takes the gradients of op->out: a norm adds two on the way, others get one sum. */
static bool take(builder *b, ff_op *op, int now) {
    const int count = b->gradient_count[op->out];
    if (!count || !b->plan->wanted[op->out]) return false; /* nothing that the loss depends on */
    for (int i = 0; i < count; i++) ff_plan_use(b->plan, b->gradients[op->out][i], now);
    op->dy = b->gradients[op->out][0];
    int next = 1;
    if (op->kind == FF_OP_NORM && count > 1) op->dy2 = b->gradients[op->out][next++];
    while (next < count) op->more[op->more_count++] = b->gradients[op->out][next++];
    return true;
}

/* What the convolution that does `norm` reads and writes of it at `now`. */
static ff_status plan_folded_backward(ff_plan *plan, ff_op *norm, int now, ff_error *error) {
    const size_t channels = (size_t)ff_tensor_padded_channels(&norm->output);
    FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH, 3 * channels * sizeof(float), now, &norm->factors,
                          error));
    ff_plan_use(plan, norm->factors, backward_time(plan, norm));
    ff_plan_use(plan, norm->saved, now);
    ff_plan_use(plan, norm->fold, now);
    return FF_OK;
}

/* Gradients are made in place where the old one is not needed again; a buffer of a gradient has one
 * owner at a time. */
static ff_status plan_backward(builder *b, ff_op *op, ff_error *error) {
    ff_plan *plan = b->plan;
    const int now = backward_time(plan, op);
    const bool wanted = plan->wanted[op->from];
    op->backward = take(b, op, now);
    if (!op->backward) return FF_OK;
    switch (op->kind) {
    case FF_OP_CONV_POOL:
        ff_plan_use(plan, op->room, now);
        ff_plan_use(plan, op->index, now);
        FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH, ff_op_partial_count(op) * sizeof(float), now,
                              &op->partial, error));
        /* fall through */
    case FF_OP_CONV:
    case FF_OP_LINEAR:
        ff_plan_use(plan, op->x, now);
        if (wanted) FF_TRY(give_new(b, op->from, now, &op->dx, error));
        if (op->folds >= 0) FF_TRY(plan_folded_backward(plan, &plan->ops[op->folds], now, error));
        break;
    case FF_OP_NORM:
        ff_plan_use(plan, op->x, now);
        ff_plan_use(plan, op->saved, now);
        if (op->from2 >= 0 && op->activation)
            ff_plan_use(plan, op->index == FF_BUFFER_NONE ? op->y : op->index, now);
        if (op->from2 >= 0 && plan->wanted[op->from2]) {
            op->dx2 = op->dy;
            FF_TRY(give(b, op->from2, op->dx2, error));
            FF_TRY(give_new(b, op->from, now, &op->dx, error));
        } else {
            op->dx = op->dy;
            FF_TRY(give(b, op->from, op->dx, error));
        }
        break;
    case FF_OP_RELU:
    case FF_OP_GELU: /* ReLU looks at what came out, GELU at what went in */
        ff_plan_use(plan, op->kind == FF_OP_RELU ? op->y : op->x, now);
        if (!wanted) break;
        /* fall through */
    case FF_OP_DROPOUT:
        op->dx = op->dy;
        FF_TRY(give(b, op->from, op->dx, error));
        break;
    case FF_OP_POOL:
        ff_plan_use(plan, op->index, now);
        if (wanted) FF_TRY(give_new(b, op->from, now, &op->dx, error));
        break;
    case FF_OP_ADD:
        op->dx = op->dy;
        FF_TRY(give(b, op->from, op->dx, error));
        if (plan->wanted[op->from2]) FF_TRY(give_new(b, op->from2, now, &op->dx2, error));
        break;
    }
    return FF_OK;
}

static ff_status plan_loss(builder *b, ff_error *error) {
    ff_plan *plan = b->plan;
    const ff_node output = plan->graph->output;
    const size_t count = ff_tensor_count(&plan->tensors[output]);
    const int now = loss_time(plan);
    plan->logits = b->values[output];
    ff_plan_use(plan, plan->logits, END);
    const int stride = ff_tensor_padded_channels(&plan->tensors[output]);
    const size_t scratch = plan->compute->ops->loss_scratch(plan->compute, plan->batch, stride);
    FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH, scratch, now, &plan->loss_scratch, error));
    plan->logits_gradient = FF_BUFFER_NONE;
    if (!plan->training) return FF_OK;
    FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH, count * plan->compute->element_bytes, now,
                          &plan->logits_gradient, error));
    return give(b, output, plan->logits_gradient, error);
}

static ff_status plan_scratch(ff_plan *plan, ff_error *error) {
    size_t most = 0;
    for (int i = 0; i < plan->op_count; i++) {
        if (plan->ops[i].kind != FF_OP_NORM) continue;
        size_t count = plan->compute->ops->norm_scratch(plan->compute, &plan->ops[i].output);
        if (count > most) most = count;
    }
    FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH, most * sizeof(float), BEGINNING,
                          &plan->norm_scratch, error));
    ff_plan_use(plan, plan->norm_scratch, END);
    FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH, conv_scratch(plan), BEGINNING,
                          &plan->conv_scratch, error));
    ff_plan_use(plan, plan->conv_scratch, END);
    return FF_OK;
}

static ff_status build(builder *b, ff_error *error) {
    ff_plan *plan = b->plan;
    const ff_compute_ops *ops = plan->compute->ops;
    const uint64_t layers = (uint64_t)plan->graph->layer_count;
    FF_TRY(ff_alloc(&plan->ops, layers, sizeof *plan->ops, "a plan", error));
    FF_TRY(ff_alloc(&plan->tensors, layers, sizeof *plan->tensors, "a plan", error));
    FF_TRY(ff_alloc(&plan->convs, layers, sizeof *plan->convs, "a plan", error));
    FF_TRY(ff_alloc(&plan->wanted, layers, sizeof *plan->wanted, "a plan", error));
    plan_wanted(plan);
    FF_TRY(ff_alloc(&b->values, layers, sizeof *b->values, "a plan", error));
    FF_TRY(ff_alloc(&b->gradients, layers, sizeof *b->gradients, "a plan", error));
    FF_TRY(ff_alloc(&b->gradient_count, layers, sizeof *b->gradient_count, "a plan", error));
    if (b->sibling) {
        plan->arenas = b->sibling->arenas;
    } else {
        FF_TRY(ff_alloc(&plan->arenas, 1, sizeof *plan->arenas, "a plan", error));
        plan->owns_arenas = true;
    }
    if (!b->sibling && ops->choose_input_block)
        FF_TRY(ops->choose_input_block(plan->compute, NULL, 0, error));
    FF_TRY(plan_tensors(plan, b->sibling, error));
    FF_TRY(ff_plan_fuse(plan, error));
    if (!b->sibling && ops->choose_input_block) FF_TRY(choose_images(plan, error));
    for (int i = 0; i < plan->op_count; i++) {
        ff_op *op = &plan->ops[i];
        if (op->kind == FF_OP_CONV || op->kind == FF_OP_CONV_POOL) FF_TRY(plan_conv(b, op, error));
    }
    b->values[0] = FF_BUFFER_IMAGES;
    for (int i = 0; i < plan->op_count; i++) FF_TRY(plan_forward(b, &plan->ops[i], error));
    FF_TRY(plan_loss(b, error));
    for (int i = plan->op_count; plan->training && i-- > 0;)
        FF_TRY(plan_backward(b, &plan->ops[i], error));
    FF_TRY(plan_scratch(plan, error));
    return ff_plan_allocate(plan, error);
}

static ff_status copy_without(ff_plan *plan, const bool *without, ff_error *error) {
    const size_t count = (size_t)plan->graph->parameter_count;
    FF_TRY(ff_alloc(&plan->without, count, sizeof *plan->without, "a plan", error));
    memcpy(plan->without, without, count * sizeof *without);
    return FF_OK;
}

ff_status ff_plan_create(ff_plan **out, const ff_graph *graph, ff_compute *compute, int batch,
                         bool training, const bool *without, const ff_plan *sibling,
                         ff_error *error) {
    builder b = {.sibling = sibling};
    *out = NULL;
    if (batch < 1 || batch > 1 << 20)
        return ff_fail(error, FF_USAGE, "a batch of %d samples; 1 to %d are possible", batch,
                       1 << 20);
    FF_TRY(ff_alloc(&b.plan, 1, sizeof *b.plan, "a plan", error));
    b.plan->graph = graph;
    b.plan->compute = compute;
    b.plan->batch = batch;
    b.plan->training = training;
    b.plan->views = 1;
    ff_status status = FF_OK;
    if (without) status = copy_without(b.plan, without, error);
    if (status == FF_OK) status = build(&b, error);
    free(b.values);
    free(b.gradients);
    free(b.gradient_count);
    if (status == FF_OK)
        *out = b.plan;
    else
        ff_plan_destroy(&b.plan);
    return status;
}

void ff_plan_destroy(ff_plan **plan_pointer) {
    ff_plan *plan = *plan_pointer;
    if (!plan) return;
    for (int i = 0; plan->ops && i < plan->op_count; i++) {
        if (plan->ops[i].conv) plan->compute->ops->conv_destroy(plan->compute, plan->ops[i].conv);
        if (plan->ops[i].tail) plan->compute->ops->conv_destroy(plan->compute, plan->ops[i].tail);
    }
    ff_plan_release_views(plan);
    if (plan->owns_arenas) {
        for (int a = 0; a < FF_ARENA_COUNT; a++)
            ff_compute_release(plan->compute, plan->arenas->memory[a]);
        free(plan->arenas);
    }
    free(plan->ops);
    free(plan->tensors);
    free(plan->convs);
    free(plan->wanted);
    free(plan->without);
    free(plan->buffers);
    free(plan);
    *plan_pointer = NULL;
}
