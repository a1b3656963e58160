/* An activation by itself, that no norm took. */
#include "train/ops/ops.h"

#include <stdio.h>

static bool is_relu(const ff_plan *plan, const ff_op *op) {
    return plan->graph->layers[op->layer].kind == FF_LAYER_RELU;
}

/* ReLU looks at what came out, GELU at what went in. */
static ff_buffer_id looked_at(const ff_plan *plan, const ff_op *op) {
    return is_relu(plan, op) ? op->y : op->x;
}

static ff_status activation_plan_backward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_plan_use(b->plan, looked_at(b->plan, op), now);
    if (!b->plan->wanted[op->from]) return FF_OK;
    return ff_planner_pass_on(b, op, error);
}

static void activation_forward(const ff_pass *pass, const ff_op *op) {
    const size_t count = ff_tensor_count(&op->output);
    const void *x = ff_pass_at(pass, op->x);
    void *y = ff_pass_at(pass, op->y);
    if (is_relu(pass->plan, op))
        pass->table->relu_forward(pass->compute, count, x, y);
    else
        pass->table->gelu_forward(pass->compute, count, x, y);
}

static void activation_backward(const ff_pass *pass, const ff_op *op) {
    const size_t count = ff_tensor_count(&op->output);
    const void *seen = ff_pass_at(pass, looked_at(pass->plan, op));
    const void *dy = ff_pass_at(pass, op->dy);
    void *dx = ff_pass_at(pass, op->dx);
    if (!dx) return;
    if (is_relu(pass->plan, op))
        pass->table->relu_backward(pass->compute, count, seen, dy, dx);
    else
        pass->table->gelu_backward(pass->compute, count, seen, dy, dx);
}

static void activation_describe(const ff_plan *plan, const ff_op *op, bool forward,
                                char text[FF_OP_NAME]) {
    (void)forward;
    snprintf(text, FF_OP_NAME, "%s", is_relu(plan, op) ? "ReLU" : "GELU");
}

const ff_op_type ff_op_activation = {
    .plan_backward = activation_plan_backward,
    .forward = activation_forward,
    .backward = activation_backward,
    .describe = activation_describe,
};
