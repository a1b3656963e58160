/* An addition that is not fused into a norm. */
#include "train/net/ops/ops.h"

ff_node ff_graph_add(ff_graph *graph, ff_node a, ff_node b) {
    if (graph->failure.status != FF_OK) return 0;
    const ff_layer *x = &graph->layers[a], *y = &graph->layers[b];
    if (x->c != y->c || x->h != y->h || x->w != y->w) {
        ff_fail(&graph->failure, FF_USAGE, "adding %s [%d, %d, %d] to %s [%d, %d, %d]", x->name,
                x->c, x->h, x->w, y->name, y->c, y->h, y->w);
        return 0;
    }
    ff_layer layer = ff_graph_begin(graph, FF_LAYER_ADD, a, "add");
    layer.from2 = b;
    return ff_graph_append(graph, &layer);
}

static ff_status add_shape(const ff_plan *plan, const ff_layer *layer, ff_tensor *output,
                           ff_error *error) {
    if (plan->tensors[layer->from2].block == output->block) return FF_OK;
    return ff_fail(error, FF_USAGE, "%s: images cannot be added to activations", layer->name);
}

static ff_status add_plan_backward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    FF_TRY(ff_planner_pass_on(b, op, error));
    if (!b->plan->wanted[op->from2]) return FF_OK;
    return ff_planner_give_new(b, op->from2, now, &op->dx2, error);
}

static void add_forward(const ff_pass *pass, const ff_op *op) {
    pass->table->add(pass->compute, ff_tensor_count(&op->output), ff_pass_at(pass, op->x),
                     ff_pass_at(pass, op->x2), ff_pass_at(pass, op->y));
}

static void add_backward(const ff_pass *pass, const ff_op *op) {
    const size_t bytes = ff_tensor_count(&op->output) * pass->compute->element_bytes;
    if (op->dx2 >= 0)
        ff_compute_copy(pass->compute, ff_pass_at(pass, op->dx2), ff_pass_at(pass, op->dy), bytes);
}

const ff_op_type ff_op_add = {
    .name = "add",
    .shape = add_shape,
    .plan_backward = add_plan_backward,
    .forward = add_forward,
    .backward = add_backward,
};
