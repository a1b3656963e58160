/* Max and average pools; one may make the statistics of the norm after it. */
#include "train/ops/ops.h"

#include <stdio.h>

static void pool_fuse(ff_fuser *f, ff_op *op) {
    (void)f;
    op->pool = (ff_pool_op){.index = FF_BUFFER_NONE};
}

static ff_status pool_plan_forward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    const bool max = b->plan->graph->layers[op->layer].kind == FF_LAYER_MAX_POOL;
    if (!b->plan->training || !max) return FF_OK;
    return ff_plan_buffer(b->plan, FF_ARENA_ACTIVATIONS, ff_tensor_count(&op->output), now,
                          &op->pool.index, error);
}

static ff_status pool_plan_backward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_plan_use(b->plan, op->pool.index, now);
    return ff_planner_give_input(b, op, now, error);
}

ff_pool ff_op_pool_of(const ff_plan *plan, ff_node node, const ff_op *op, const ff_tensor *input) {
    const ff_layer *layer = &plan->graph->layers[node];
    ff_pool pool = {
        .input = *input,
        .output = op->output,
        .kernel_h = layer->kernel_h,
        .kernel_w = layer->kernel_w,
        .stride = layer->stride,
        .pad = layer->pad,
        .max = layer->kind == FF_LAYER_MAX_POOL,
    };
    pool.output.n = input->n;
    return pool;
}

static void pool_forward(const ff_pass *pass, const ff_op *op) {
    const ff_pool pool = ff_op_pool_of(pass->plan, op->layer, op, &op->input);
    const void *x = ff_pass_at(pass, op->x);
    void *y = ff_pass_at(pass, op->y);
    uint8_t *index = pass->training ? ff_pass_at(pass, op->pool.index) : NULL;
    if (pass->training && op->pool.counts_for) {
        const ff_norm norm = ff_op_norm_of(pass, op->pool.counts_for);
        pass->table->pool_norm(pass->compute, &pool, x, y, index, &norm,
                               ff_pass_norm_scratch(pass));
    } else {
        pass->table->pool_forward(pass->compute, &pool, x, y, index);
    }
}

static void pool_backward(const ff_pass *pass, const ff_op *op) {
    const ff_pool pool = ff_op_pool_of(pass->plan, op->layer, op, &op->input);
    void *dx = ff_pass_at(pass, op->dx);
    if (dx)
        pass->table->pool_backward(pass->compute, &pool, ff_pass_at(pass, op->dy),
                                   ff_pass_at(pass, op->pool.index), dx);
}

static void pool_describe(const ff_plan *plan, const ff_op *op, bool forward,
                          char text[FF_OP_NAME]) {
    const ff_layer *layer = &plan->graph->layers[op->layer];
    snprintf(text, FF_OP_NAME, "%s pool %dx%d /%d%s",
             layer->kind == FF_LAYER_MAX_POOL ? "max" : "average", layer->kernel_h, layer->kernel_w,
             layer->stride, forward && op->pool.counts_for ? ", statistics for the norm" : "");
}

const ff_op_type ff_op_pool = {
    .fuse = pool_fuse,
    .plan_forward = pool_plan_forward,
    .plan_backward = pool_plan_backward,
    .forward = pool_forward,
    .backward = pool_backward,
    .describe = pool_describe,
};
