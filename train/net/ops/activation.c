/* An activation that is not fused into a norm. */
#include "train/net/ops/ops.h"

#include <stdio.h>

ff_activation_words ff_activation_called(ff_activation activation) {
    static const ff_activation_words words[] = {
        [FF_ACTIVATION_NONE] = {"", ""},
        [FF_ACTIVATION_RELU] = {"relu", "ReLU"},
        [FF_ACTIVATION_RELU6] = {"relu6", "ReLU6"},
        [FF_ACTIVATION_GELU] = {"gelu", "GELU"},
    };
    return words[activation];
}

ff_node ff_graph_activation(ff_graph *graph, ff_node from, ff_activation activation) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer =
        ff_graph_begin(graph, FF_LAYER_ACTIVATION, from, ff_activation_called(activation).layer);
    layer.activation = activation;
    return ff_graph_append(graph, &layer);
}

static ff_activation activation_of(const ff_plan *plan, const ff_op *op) {
    return plan->graph->layers[op->layer].activation;
}

/* The value that the backward pass reads. */
static ff_buffer_id seen(const ff_plan *plan, const ff_op *op) {
    return ff_activation_sees_output(activation_of(plan, op)) ? op->y : op->x;
}

static ff_status activation_plan_backward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_plan_use(b->plan, seen(b->plan, op), now);
    if (!b->plan->wanted[op->from]) return FF_OK;
    return ff_planner_pass_on(b, op, error);
}

static void activation_forward(const ff_pass *pass, const ff_op *op) {
    pass->table->activation_forward(pass->compute, activation_of(pass->plan, op),
                                    ff_tensor_count(&op->output), ff_pass_at(pass, op->x),
                                    ff_pass_at(pass, op->y));
}

static void activation_backward(const ff_pass *pass, const ff_op *op) {
    void *dx = ff_pass_at(pass, op->dx);
    if (dx)
        pass->table->activation_backward(
            pass->compute, activation_of(pass->plan, op), ff_tensor_count(&op->output),
            ff_pass_at(pass, seen(pass->plan, op)), ff_pass_at(pass, op->dy), dx);
}

static void activation_describe(const ff_plan *plan, const ff_op *op, bool forward,
                                char text[FF_OP_NAME]) {
    (void)forward;
    snprintf(text, FF_OP_NAME, "%s", ff_activation_called(activation_of(plan, op)).text);
}

const ff_op_type ff_op_activation = {
    .plan_backward = activation_plan_backward,
    .forward = activation_forward,
    .backward = activation_backward,
    .describe = activation_describe,
};
