/* A linear layer; the last one's output is the logits. */
#include "train/ops/ops.h"

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
