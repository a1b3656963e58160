/* From layers to operations: what becomes one. */
#include "train/plan.h"

#include "format/base/memory.h"

#include <stdlib.h>

/* What is known while the layers are walked. */
typedef struct fusion {
    ff_plan *plan;
    int *users;         /* [layers]: how many layers read it */
    ff_node *only_user; /* [layers]: the last of them */
    bool *fused;        /* [layers]: part of an operation already */
} fusion;

static void count_users(fusion *b) {
    const ff_graph *graph = b->plan->graph;
    for (int i = 0; i < graph->layer_count; i++) {
        const ff_node inputs[2] = {graph->layers[i].from, graph->layers[i].from2};
        for (int k = 0; k < 2; k++) {
            if (inputs[k] < 0) continue;
            b->users[inputs[k]]++;
            b->only_user[inputs[k]] = i;
        }
    }
}

/* The only user of a value where it is of that kind; else -1. */
static ff_node single_user(const fusion *b, ff_node node, ff_layer_kind kind) {
    if (b->users[node] != 1) return -1;
    ff_node user = b->only_user[node];
    return b->plan->graph->layers[user].kind == kind ? user : -1;
}

/* norm, norm + relu, norm + gelu, norm + add, norm + add + relu. The add is taken by the norm that
 * comes last, when the other summand is there. */
static void fuse_norm(fusion *b, ff_op *op) {
    const ff_layer *layers = b->plan->graph->layers;
    op->kind = FF_OP_NORM;
    ff_node add = single_user(b, op->out, FF_LAYER_ADD);
    if (add >= 0) {
        ff_node other = layers[add].from == op->out ? layers[add].from2 : layers[add].from;
        if (other < op->out) {
            op->from2 = other;
            op->out = add;
            b->fused[add] = true;
        }
    }
    ff_node relu = single_user(b, op->out, FF_LAYER_RELU);
    if (relu >= 0) {
        op->activation = FF_ACTIVATION_RELU;
        op->out = relu;
        b->fused[relu] = true;
        return;
    }
    ff_node gelu = op->from2 < 0 ? single_user(b, op->out, FF_LAYER_GELU) : -1;
    if (gelu >= 0) {
        op->activation = FF_ACTIVATION_GELU;
        op->out = gelu;
        b->fused[gelu] = true;
    }
}

static void fuse_conv(fusion *b, ff_op *op) {
    op->kind = FF_OP_CONV;
    if (!(b->plan->compute->fusions & FF_FUSE_CONV_POOL)) return;
    ff_node pool = single_user(b, op->out, FF_LAYER_MAX_POOL);
    if (pool < 0) return;
    op->kind = FF_OP_CONV_POOL;
    op->pool = pool;
    op->out = pool;
    b->fused[pool] = true;
}

static void make_ops(fusion *b) {
    ff_plan *plan = b->plan;
    const ff_graph *graph = plan->graph;
    uint32_t dropouts = 0;
    for (int i = 1; i < graph->layer_count; i++) {
        const ff_layer *layer = &graph->layers[i];
        if (b->fused[i]) continue;
        if (layer->kind == FF_LAYER_FLATTEN) { /* a view */
            b->fused[i] = true;
            continue;
        }
        ff_op *op = &plan->ops[plan->op_count++];
        *op = (ff_op){.layer = i, .pool = -1, .from = layer->from, .from2 = layer->from2, .out = i};
        op->x = op->x2 = op->y = op->index = op->saved = op->sums = FF_BUFFER_NONE;
        op->fold = op->factors = FF_BUFFER_NONE;
        op->counts_for = op->counted_by = op->folds = op->folded_by = -1;
        op->dy = op->dy2 = op->dx = op->dx2 = op->room = op->partial = FF_BUFFER_NONE;
        switch (layer->kind) {
        case FF_LAYER_CONV: fuse_conv(b, op); break;
        case FF_LAYER_NORM: fuse_norm(b, op); break;
        case FF_LAYER_RELU: op->kind = FF_OP_RELU; break;
        case FF_LAYER_GELU: op->kind = FF_OP_GELU; break;
        case FF_LAYER_LINEAR: op->kind = FF_OP_LINEAR; break;
        case FF_LAYER_ADD: op->kind = FF_OP_ADD; break;
        case FF_LAYER_DROPOUT:
            op->kind = FF_OP_DROPOUT;
            op->dropout = dropouts++;
            break;
        default: op->kind = FF_OP_POOL;
        }
        op->input = plan->tensors[op->from];
        op->output = plan->tensors[op->out];
    }
}

/* Pairs norms with the operations whose outputs they are the first to read, where those can make
 * statistics for them. Whether a convolution can, its planning tells. */
static void pair_norms(const fusion *b) {
    ff_plan *plan = b->plan;
    const unsigned fusions = plan->training ? plan->compute->fusions : 0;
    for (int i = 0; i < plan->op_count; i++)
        for (int k = i + 1; k < plan->op_count; k++) {
            ff_op *maker = &plan->ops[i], *norm = &plan->ops[k];
            if (norm->kind != FF_OP_NORM || norm->from != maker->out) continue;
            const ff_layer *layer = &plan->graph->layers[maker->layer];
            bool conv = maker->kind == FF_OP_CONV && !layer->bias;
            if ((conv && fusions & FF_FUSE_CONV_STATISTICS) ||
                (maker->kind == FF_OP_POOL && fusions & FF_FUSE_POOL_STATISTICS)) {
                maker->counts_for = k;
                norm->counted_by = i;
            }
            break;
        }
}

/* Of a folded norm: its scale, at most gamma / sqrt(epsilon), must be a number of 16 bits. */
#define LEAST_EPSILON 1e-6

/* Pairs norms with ReLU with the convolution that alone reads them and might do them itself.
 * Whether it can, its planning tells. */
static void fold_norms(const fusion *b) {
    ff_plan *plan = b->plan;
    if (!plan->training || !(plan->compute->fusions & FF_FUSE_NORM_CONV)) return;
    for (int i = 0; i < plan->op_count; i++) {
        ff_op *norm = &plan->ops[i];
        if (norm->kind != FF_OP_NORM || norm->activation != FF_ACTIVATION_RELU ||
            norm->from2 >= 0 || !ff_op_trains(plan, norm, 0) || !ff_op_trains(plan, norm, 1) ||
            plan->graph->layers[norm->layer].epsilon < LEAST_EPSILON)
            continue;
        const ff_node reader = single_user(b, norm->out, FF_LAYER_CONV);
        for (int k = i + 1; k < plan->op_count && reader >= 0; k++) {
            ff_op *conv = &plan->ops[k];
            if (conv->layer != reader || conv->kind != FF_OP_CONV) continue;
            if (plan->graph->layers[reader].bias || !ff_op_trains(plan, conv, 0)) break;
            norm->folded_by = k;
            conv->folds = i;
        }
    }
}

ff_status ff_plan_fuse(ff_plan *plan, ff_error *error) {
    const uint64_t layers = (uint64_t)plan->graph->layer_count;
    fusion b = {.plan = plan};
    ff_status status;
    FF_TRY_DONE(ff_alloc(&b.users, layers, sizeof *b.users, "a plan", error));
    FF_TRY_DONE(ff_alloc(&b.only_user, layers, sizeof *b.only_user, "a plan", error));
    FF_TRY_DONE(ff_alloc(&b.fused, layers, sizeof *b.fused, "a plan", error));
    count_users(&b);
    make_ops(&b);
    pair_norms(&b);
    fold_norms(&b);
    status = FF_OK;
done:
    free(b.users);
    free(b.only_user);
    free(b.fused);
    return status;
}
