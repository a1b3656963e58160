/* A linear layer; the output of the net's last one is the logits. */
#include "train/net/ops/ops.h"

#include <math.h>

ff_node ff_graph_linear(ff_graph *graph, ff_node from, const char *name, int outputs) {
    const ff_linear_form form = {.bias = true, .scale = 1, .rows = FF_ROWS_DEFAULT};
    return ff_graph_linear_with(graph, from, name, outputs, &form);
}

ff_node ff_graph_linear_with(ff_graph *graph, ff_node from, const char *name, int outputs,
                             const ff_linear_form *form) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer = ff_graph_begin(graph, FF_LAYER_LINEAR, from, name);
    const int64_t inputs = (int64_t)layer.c * layer.h * layer.w;
    if (outputs < 1 || outputs > FF_GRAPH_LARGEST || inputs > INT32_MAX) {
        ff_fail(&graph->failure, FF_USAGE, "%s: a linear layer of %lld inputs and %d outputs", name,
                (long long)inputs, outputs);
        return 0;
    }
    layer.c = outputs;
    layer.h = layer.w = 1;
    layer.bias = form->bias;
    layer.scale = form->scale;
    static const ff_initial initials[] = {FF_INITIAL_UNIFORM, FF_INITIAL_NORMAL, FF_INITIAL_UNIT};
    const bool usual = form->rows == FF_ROWS_DEFAULT;
    double bound = 1.0 / sqrt((double)inputs);
    ff_graph_parameter *p =
        ff_graph_add_parameter(graph, &layer, "weight", FF_F32, true, initials[form->rows],
                               form->rows == FF_ROWS_NORMAL ? 0.01 : bound);
    p->rank = 2;
    p->shape[0] = outputs;
    p->shape[1] = inputs;
    if (form->bias)
        ff_graph_add_vector(graph, &layer, "bias", true,
                            usual ? FF_INITIAL_UNIFORM : FF_INITIAL_CONSTANT, usual ? bound : 0);
    return ff_graph_append(graph, &layer);
}

static ff_status linear_shape(const ff_plan *plan, const ff_layer *layer, ff_tensor *output,
                              ff_error *error) {
    (void)layer, (void)error;
    output->block = plan->compute->ops->row_block(plan->compute, output->c);
    return FF_OK;
}

static ff_linear linear_of(const ff_plan *plan, const ff_op *op) {
    return (ff_linear){
        .input = op->input,
        .outputs = ff_tensor_padded_channels(&op->output),
        .scale = (float)plan->graph->layers[op->layer].scale,
        .logits = op->out == plan->graph->output,
    };
}

static ff_status linear_plan_forward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_compute *compute = b->plan->compute;
    const ff_linear linear = linear_of(b->plan, op);
    (void)now, (void)error;
    if (compute->ops->linear_scratch)
        ff_planner_share(b, compute->ops->linear_scratch(compute, &linear));
    return FF_OK;
}

static ff_status linear_plan_backward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_plan_use(b->plan, op->x, now);
    return ff_planner_give_input(b, op, now, error);
}

static void linear_forward(const ff_pass *pass, const ff_op *op) {
    const ff_linear linear = linear_of(pass->plan, op);
    const float *bias = ff_pass_layer(pass, op)->bias ? ff_pass_parameter(pass, op, 1) : NULL;
    pass->table->linear_forward(pass->compute, &linear, ff_pass_at(pass, op->x),
                                ff_pass_working(pass, op, 0), bias, ff_pass_at(pass, op->y));
}

static void linear_backward(const ff_pass *pass, const ff_op *op) {
    const ff_linear linear = linear_of(pass->plan, op);
    pass->table->linear_backward(pass->compute, &linear, ff_pass_at(pass, op->x),
                                 ff_pass_working(pass, op, 0), ff_pass_at(pass, op->dy),
                                 ff_pass_at(pass, op->dx), ff_pass_gradient(pass, op, 0),
                                 ff_pass_bias_gradient(pass, op), ff_pass_scratch(pass));
}

const ff_op_type ff_op_linear = {
    .name = "linear",
    .shape = linear_shape,
    .plan_forward = linear_plan_forward,
    .plan_backward = linear_plan_backward,
    .forward = linear_forward,
    .backward = linear_backward,
};
