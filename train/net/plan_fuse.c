/* From layers to operations: decides which layers are fused. */
#include "format/base/memory.h"
#include "train/net/ops/ops.h"

#include <stdlib.h>

static void count_users(ff_fuser *f) {
    const ff_graph *graph = f->plan->graph;
    for (int i = 0; i < graph->layer_count; i++) {
        const ff_node inputs[2] = {graph->layers[i].from, graph->layers[i].from2};
        for (int k = 0; k < 2; k++) {
            if (inputs[k] < 0) continue;
            f->users[inputs[k]]++;
            f->only_user[inputs[k]] = i;
        }
    }
}

ff_node ff_fuser_only_user(const ff_fuser *f, ff_node node, ff_layer_kind kind) {
    if (f->users[node] != 1) return -1;
    const ff_node user = f->only_user[node];
    return f->plan->graph->layers[user].kind == kind ? user : -1;
}

void ff_fuser_take(ff_fuser *f, ff_op *op, ff_node layer) {
    op->out = layer;
    f->fused[layer] = true;
}

static void make_ops(ff_fuser *f) {
    ff_plan *plan = f->plan;
    const ff_graph *graph = plan->graph;
    for (int i = 1; i < graph->layer_count; i++) {
        const ff_layer *layer = &graph->layers[i];
        const ff_op_type *type = ff_op_type_of(layer->kind);
        if (f->fused[i] || !type) continue;
        ff_op *op = &plan->ops[plan->op_count++];
        *op =
            (ff_op){.type = type, .layer = i, .from = layer->from, .from2 = layer->from2, .out = i};
        op->x = op->x2 = op->y = FF_BUFFER_NONE;
        op->dy = op->dy2 = op->dx = op->dx2 = FF_BUFFER_NONE;
        if (type->fuse) type->fuse(f, op);
        op->input = plan->tensors[op->from];
        op->output = plan->tensors[op->out];
    }
    for (int i = 0; i < plan->op_count; i++)
        if (plan->ops[i].type->pair) plan->ops[i].type->pair(f, &plan->ops[i]);
}

ff_status ff_plan_fuse(ff_plan *plan, ff_error *error) {
    const uint64_t layers = (uint64_t)plan->graph->layer_count;
    ff_fuser f = {.plan = plan};
    ff_status status;
    FF_TRY_DONE(ff_alloc(&f.users, layers, sizeof *f.users, "a plan", error));
    FF_TRY_DONE(ff_alloc(&f.only_user, layers, sizeof *f.only_user, "a plan", error));
    FF_TRY_DONE(ff_alloc(&f.fused, layers, sizeof *f.fused, "a plan", error));
    count_users(&f);
    make_ops(&f);
    status = FF_OK;
done:
    free(f.users);
    free(f.only_user);
    free(f.fused);
    return status;
}
