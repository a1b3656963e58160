/* Dropout: the same mask forward and backward; in evaluation it keeps everything. */
#include "train/net/ops/ops.h"

ff_node ff_graph_dropout(ff_graph *graph, ff_node from, double probability) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer = ff_graph_begin(graph, FF_LAYER_DROPOUT, from, "dropout");
    layer.probability = probability;
    if (!(probability >= 0 && probability < 1)) {
        ff_fail(&graph->failure, FF_USAGE, "dropout of probability %g; it must be in [0, 1)",
                probability);
        return 0;
    }
    return ff_graph_append(graph, &layer);
}

static void dropout_fuse(ff_fuser *f, ff_op *op) {
    op->dropout.number = f->dropouts++;
}

static ff_status dropout_plan_backward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    (void)now;
    return ff_planner_pass_on(b, op, error);
}

static void run(const ff_pass *pass, const ff_op *op, const void *from, void *to) {
    const ff_dropout arguments = {
        .shape = op->output,
        .probability = pass->training ? ff_pass_layer(pass, op)->probability : 0,
        .seed = pass->plan->seed,
        .layer = op->dropout.number,
        .step = &pass->plan->store->control->step,
        .part = &pass->plan->store->control->part,
        .rows = pass->plan->share.rows,
        .first_row = pass->plan->share.first,
    };
    pass->table->dropout(pass->compute, &arguments, from, to);
}

static void dropout_forward(const ff_pass *pass, const ff_op *op) {
    run(pass, op, ff_pass_at(pass, op->x), ff_pass_at(pass, op->y));
}

static void dropout_backward(const ff_pass *pass, const ff_op *op) {
    run(pass, op, ff_pass_at(pass, op->dy), ff_pass_at(pass, op->dx));
}

const ff_op_type ff_op_dropout = {
    .name = "dropout",
    .fuse = dropout_fuse,
    .plan_backward = dropout_plan_backward,
    .forward = dropout_forward,
    .backward = dropout_backward,
};
