/* From operations to a plan: shapes, algorithms, buffers. */
#include "train/net/plan.h"

#include "format/base/memory.h"
#include "train/net/ops/ops.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Times before and after all others, for buffers that live as long as the plan. */
enum { BEGINNING = -1, END = 1 << 30 };

/* ---- shapes ---- */

static ff_status plan_tensors(ff_plan *plan, const ff_plan *sibling, ff_error *error) {
    const ff_graph *graph = plan->graph;
    const ff_compute_ops *ops = plan->compute->ops;
    for (int i = 0; i < graph->layer_count; i++) {
        const ff_layer *layer = &graph->layers[i];
        ff_tensor *t = &plan->tensors[i];
        *t = (ff_tensor){plan->batch, layer->c, layer->h, layer->w, 1};
        const ff_op_type *type = i ? ff_op_type_of(layer->kind) : NULL;
        if (i > 0)
            t->block = plan->tensors[layer->from].block;
        else
            t->block = sibling ? sibling->tensors[i].block : ops->input_block(plan->compute, t->c);
        if (type && type->shape) FF_TRY(type->shape(plan, layer, t, error));
        uint64_t count = (uint64_t)t->n * (uint64_t)ff_tensor_padded_channels(t), bytes;
        if (!ff_mul_u64(count, (uint64_t)t->h * (uint64_t)t->w, &count) ||
            !ff_mul_u64(count, sizeof(float), &bytes) || bytes > UINT64_C(1) << 46)
            return ff_fail(error, FF_USAGE, "%s: %d samples of [%d, %d, %d] exceed any memory",
                           layer->name, t->n, t->c, t->h, t->w);
    }
    return FF_OK;
}

/* The gradient of a value is needed if the value depends on a trained parameter. */
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

ff_node ff_plan_origin(const ff_plan *plan, ff_node node) {
    while (plan->graph->layers[node].kind == FF_LAYER_FLATTEN)
        node = plan->graph->layers[node].from;
    return node;
}

/* ---- algorithms ---- */

/* If only convolutions read the images, the compute chooses the images' block. */
static ff_status choose_images(ff_plan *plan, ff_error *error) {
    const ff_graph *graph = plan->graph;
    const ff_compute_ops *ops = plan->compute->ops;
    ff_conv_shape *shapes;
    int count = 0, readers = 0;
    for (int i = 1; i < graph->layer_count; i++)
        readers += graph->layers[i].from == 0 || graph->layers[i].from2 == 0;
    FF_TRY(ff_alloc(&shapes, (uint64_t)plan->op_count, sizeof *shapes, "a plan", error));
    for (int i = 0; i < plan->op_count; i++)
        if (plan->ops[i].type == &ff_op_conv && plan->ops[i].from == 0)
            shapes[count++] = ff_op_conv_shape(plan, &plan->ops[i]);
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

static ff_status choose_all(const ff_planner *b, ff_error *error) {
    for (int i = 0; i < b->plan->op_count; i++) {
        ff_op *op = &b->plan->ops[i];
        if (!op->type->choose) continue;
        const ff_status status = op->type->choose(b, op, error);
        if (status != FF_OK)
            return ff_fail_within(error, status, "%s", b->plan->graph->layers[op->layer].name);
    }
    return FF_OK;
}

/* ---- buffers of the forward pass ---- */

/* Bytes of an element: the logits are always f32. */
static size_t value_bytes(const ff_plan *plan, ff_node node) {
    return node == plan->graph->output ? sizeof(float) : plan->compute->element_bytes;
}

static ff_status plan_forward(ff_planner *b, ff_op *op, ff_error *error) {
    ff_plan *plan = b->plan;
    const int now = ff_op_forward_time(plan, op);
    const size_t bytes = ff_tensor_count(&op->output) * value_bytes(plan, op->out);
    op->x = b->values[ff_plan_origin(plan, op->from)];
    ff_plan_use(plan, op->x, now);
    if (op->from2 >= 0) {
        op->x2 = b->values[ff_plan_origin(plan, op->from2)];
        ff_plan_use(plan, op->x2, now);
    }
    if (!op->unwritten)
        FF_TRY(ff_plan_buffer(plan, FF_ARENA_ACTIVATIONS, bytes, now, &op->y, error));
    b->values[op->out] = op->unwritten ? op->x : op->y;
    return op->type->plan_forward ? op->type->plan_forward(b, op, now, error) : FF_OK;
}

/* ---- buffers of the backward pass ---- */

/* Takes the gradients of op->out. Some types add two gradients themselves, others take their
 * sum. */
static bool take(ff_planner *b, ff_op *op, int now) {
    const int count = b->gradient_count[op->out];
    if (!count || !b->plan->wanted[op->out]) return false; /* the loss does not depend on it */
    for (int i = 0; i < count; i++) ff_plan_use(b->plan, b->gradients[op->out][i], now);
    op->dy = b->gradients[op->out][0];
    int next = 1;
    if (op->type->adds_two && count > 1) op->dy2 = b->gradients[op->out][next++];
    while (next < count) op->more[op->more_count++] = b->gradients[op->out][next++];
    return true;
}

static ff_status plan_backward(ff_planner *b, ff_op *op, ff_error *error) {
    const int now = ff_op_backward_time(b->plan, op);
    op->backward = take(b, op, now);
    return op->backward ? op->type->plan_backward(b, op, now, error) : FF_OK;
}

static ff_status plan_loss(ff_planner *b, ff_error *error) {
    ff_plan *plan = b->plan;
    const ff_node output = plan->graph->output;
    const size_t count = ff_tensor_count(&plan->tensors[output]);
    const int now = plan->op_count;
    plan->logits = b->values[output];
    ff_plan_use(plan, plan->logits, END);
    const int stride = ff_tensor_padded_channels(&plan->tensors[output]);
    const size_t scratch = plan->compute->ops->loss_scratch(plan->compute, plan->batch, stride);
    FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH, scratch, now, &plan->loss_scratch, error));
    plan->logits_gradient = FF_BUFFER_NONE;
    if (!plan->training) return FF_OK;
    FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH, count * plan->compute->element_bytes, now,
                          &plan->logits_gradient, error));
    return ff_planner_give(b, output, plan->logits_gradient, error);
}

static ff_status plan_scratch(ff_planner *b, ff_error *error) {
    ff_plan *plan = b->plan;
    FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH, b->norm_floats * sizeof(float), BEGINNING,
                          &plan->norm_scratch, error));
    ff_plan_use(plan, plan->norm_scratch, END);
    FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH, b->shared_bytes, BEGINNING, &plan->shared_scratch,
                          error));
    ff_plan_use(plan, plan->shared_scratch, END);
    return FF_OK;
}

static ff_status build(ff_planner *b, ff_error *error) {
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
    FF_TRY(choose_all(b, error));
    b->values[0] = FF_BUFFER_IMAGES;
    for (int i = 0; i < plan->op_count; i++) FF_TRY(plan_forward(b, &plan->ops[i], error));
    FF_TRY(plan_loss(b, error));
    for (int i = plan->op_count; plan->training && i-- > 0;)
        FF_TRY(plan_backward(b, &plan->ops[i], error));
    FF_TRY(plan_scratch(b, error));
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
    ff_planner b = {.sibling = sibling};
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
    ff_status status;
    if (without) FF_TRY_DONE(copy_without(b.plan, without, error));
    FF_TRY_DONE(build(&b, error));
done:
    free(b.values);
    free(b.gradients);
    free(b.gradient_count);
    if (status == FF_OK)
        *out = b.plan;
    else
        ff_plan_destroy(&b.plan);
    return status;
}

void ff_plan_write_all(ff_plan *plan) {
    for (int i = 0; i < plan->graph->layer_count; i++)
        if (plan->convs[i]) plan->convs[i]->shape.gradient_zeroed = false;
}

void ff_plan_destroy(ff_plan **plan_pointer) {
    ff_plan *plan = *plan_pointer;
    if (!plan) return;
    for (int i = 0; plan->ops && i < plan->op_count; i++) {
        ff_op *op = &plan->ops[i];
        if (op->type->destroy) op->type->destroy(plan->compute, op);
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
