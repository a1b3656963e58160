/* An activation that is not fused into a norm. Its backward pass may compute the gradient of the
 * bias of the convolution before it. */
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

static void activation_fuse(ff_fuser *f, ff_op *op) {
    (void)f;
    op->activation = (ff_activation_op){NULL};
}

/* Pairs the activation with the convolution before it, if nothing else reads the convolution and
 * its bias is trained. */
static void activation_pair(const ff_fuser *f, ff_op *op) {
    ff_plan *plan = f->plan;
    ff_op *conv = plan->ops;
    if (!plan->training || !(plan->compute->fusions & FF_FUSE_BIAS_ACTIVATION)) return;
    while (conv < op && conv->out != op->from) conv++;
    if (conv == op || conv->type != &ff_op_conv || !plan->graph->layers[conv->layer].bias ||
        !ff_op_trains(plan, conv, 1) ||
        ff_fuser_only_user(f, conv->out, FF_LAYER_ACTIVATION) != op->layer)
        return;
    op->activation.bias_of = conv;
    conv->conv.bias_apart = true;
}

static ff_status activation_plan_backward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_plan *plan = b->plan;
    const ff_op *conv = op->activation.bias_of;
    ff_plan_use(plan, seen(plan, op), now);
    if (conv) {
        const size_t scratch = plan->compute->ops->norm_scratch(plan->compute, &op->output);
        if (scratch > b->norm_floats) b->norm_floats = scratch;
        /* nothing but the bias is trained: nobody reads dx */
        if (!ff_op_trains(plan, conv, 0) && !plan->wanted[conv->from]) return FF_OK;
    }
    if (!plan->wanted[op->from]) return FF_OK;
    return ff_planner_pass_on(b, op, error);
}

static void activation_forward(const ff_pass *pass, const ff_op *op) {
    pass->table->activation_forward(pass->compute, activation_of(pass->plan, op),
                                    ff_tensor_count(&op->output), ff_pass_at(pass, op->x),
                                    ff_pass_at(pass, op->y));
}

static void activation_backward(const ff_pass *pass, const ff_op *op) {
    const ff_op *conv = op->activation.bias_of;
    const ff_activation activation = activation_of(pass->plan, op);
    const void *from = ff_pass_at(pass, seen(pass->plan, op)), *dy = ff_pass_at(pass, op->dy);
    void *dx = ff_pass_at(pass, op->dx);
    if (conv)
        pass->table->activation_bias_backward(pass->compute, activation, &op->output, from, dy, dx,
                                              ff_pass_bias_gradient(pass, conv),
                                              ff_pass_norm_scratch(pass));
    else if (dx)
        pass->table->activation_backward(pass->compute, activation, ff_tensor_count(&op->output),
                                         from, dy, dx);
}

static void activation_describe(const ff_plan *plan, const ff_op *op, bool forward,
                                char text[FF_OP_NAME]) {
    snprintf(text, FF_OP_NAME, "%s%s", ff_activation_called(activation_of(plan, op)).text,
             op->activation.bias_of && !forward ? ", with the bias before it" : "");
}

const ff_op_type ff_op_activation = {
    .fuse = activation_fuse,
    .pair = activation_pair,
    .plan_backward = activation_plan_backward,
    .forward = activation_forward,
    .backward = activation_backward,
    .describe = activation_describe,
};
