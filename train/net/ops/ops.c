/* The types of operations by layer, and their shared functions. */
#include "train/net/ops/ops.h"

#include <stdio.h>
#include <string.h>

const ff_op_type *ff_op_type_of(ff_layer_kind kind) {
#define ROW(layer, type) [FF_LAYER_##layer] = &ff_op_##type,
    static const ff_op_type *const types[FF_LAYER_KINDS] = {FF_OP_TYPES(ROW)};
#undef ROW
    return types[kind];
}

void ff_op_describe(const ff_plan *plan, const ff_op *op, bool forward, char text[FF_OP_NAME]) {
    if (op->type->describe)
        op->type->describe(plan, op, forward, text);
    else
        snprintf(text, FF_OP_NAME, "%s", op->type->name);
}

/* The names from the operation's first layer to `node`, its last so far. */
static void add_layers(const ff_plan *plan, const ff_op *op, ff_node node, char *text,
                       size_t size) {
    const ff_layer *layer = &plan->graph->layers[node];
    if (node != op->layer)
        add_layers(plan, op, layer->from == op->from2 ? layer->from2 : layer->from, text, size);
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? " + " : "", layer->name);
}

void ff_op_layers(const ff_plan *plan, const ff_op *op, bool folded, char *text, size_t size) {
    *text = 0;
    if (folded && op->type == &ff_op_conv && op->conv.folds)
        add_layers(plan, op->conv.folds, op->conv.folds->out, text, size);
    if (folded && op->type == &ff_op_norm && op->norm.adds)
        add_layers(plan, op->norm.adds, op->norm.adds->out, text, size);
    add_layers(plan, op, op->out, text, size);
}

/* ---- while memory is planned ---- */

int ff_op_forward_time(const ff_plan *plan, const ff_op *op) {
    return (int)(op - plan->ops);
}
int ff_op_backward_time(const ff_plan *plan, const ff_op *op) {
    return 2 * plan->op_count - ff_op_forward_time(plan, op);
}

ff_status ff_planner_give(ff_planner *b, ff_node node, ff_buffer_id buffer, ff_error *error) {
    node = ff_plan_origin(b->plan, node);
    if (b->gradient_count[node] == FF_MAX_USERS)
        return ff_fail(error, FF_USAGE, "%s: a value with more than %d users",
                       b->plan->graph->layers[node].name, FF_MAX_USERS);
    b->gradients[node][b->gradient_count[node]++] = buffer;
    return FF_OK;
}

ff_status ff_planner_give_new(ff_planner *b, ff_node node, int now, ff_buffer_id *id,
                              ff_error *error) {
    const size_t count = ff_tensor_count(&b->plan->tensors[node]);
    const size_t bytes = b->plan->compute->element_bytes;
    FF_TRY(ff_plan_buffer(b->plan, FF_ARENA_SCRATCH, count * bytes, now, id, error));
    return ff_planner_give(b, node, *id, error);
}

ff_status ff_planner_give_input(ff_planner *b, ff_op *op, int now, ff_error *error) {
    if (!b->plan->wanted[op->from]) return FF_OK;
    return ff_planner_give_new(b, op->from, now, &op->dx, error);
}

ff_status ff_planner_pass_on(ff_planner *b, ff_op *op, ff_error *error) {
    op->dx = op->dy;
    return ff_planner_give(b, op->from, op->dx, error);
}

void ff_planner_share(ff_planner *b, size_t bytes) {
    if (bytes > b->shared_bytes) b->shared_bytes = bytes;
}

/* ---- while it runs ---- */

static int index_of(const ff_pass *pass, const ff_op *op, int k) {
    return ff_pass_layer(pass, op)->parameter + k;
}

float *ff_pass_parameter(const ff_pass *pass, const ff_op *op, int k) {
    return ff_store_value(pass->plan->store, index_of(pass, op, k));
}

const void *ff_pass_working(const ff_pass *pass, const ff_op *op, int k) {
    return ff_store_working(pass->plan->store, index_of(pass, op, k));
}

void *ff_pass_gradient(const ff_pass *pass, const ff_op *op, int k) {
    if (!ff_op_trains(pass->plan, op, k)) return NULL;
    return ff_store_gradient(pass->plan->store, index_of(pass, op, k));
}

const void *ff_pass_bias(const ff_pass *pass, const ff_op *op) {
    return ff_pass_layer(pass, op)->bias ? ff_pass_working(pass, op, 1) : NULL;
}

float *ff_pass_bias_gradient(const ff_pass *pass, const ff_op *op) {
    return ff_pass_layer(pass, op)->bias ? ff_pass_gradient(pass, op, 1) : NULL;
}
