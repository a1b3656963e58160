/* A batch norm, with the addition and the activation after it: norm, norm + any activation, norm +
 * add, norm + add + ReLU. A norm that is only added to another one is applied by that one. The
 * operation before it may compute its statistics, and the norm and its ReLU may be folded into the
 * convolution after them (ff_fold). */
#include "train/net/ops/ops.h"

#include <stdio.h>

ff_node ff_graph_norm(ff_graph *graph, ff_node from, const char *name) {
    return ff_graph_norm_with(graph, from, name, 0.1, 1e-5);
}

ff_node ff_graph_norm_with(ff_graph *graph, ff_node from, const char *name, double momentum,
                           double epsilon) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer = ff_graph_begin(graph, FF_LAYER_NORM, from, name);
    layer.momentum = momentum;
    layer.epsilon = epsilon;
    ff_graph_add_vector(graph, &layer, "weight", true, FF_INITIAL_CONSTANT, 1);
    ff_graph_add_vector(graph, &layer, "bias", true, FF_INITIAL_CONSTANT, 0);
    ff_graph_add_vector(graph, &layer, "running_mean", false, FF_INITIAL_CONSTANT, 0);
    ff_graph_add_vector(graph, &layer, "running_var", false, FF_INITIAL_CONSTANT, 1);
    ff_graph_add_parameter(graph, &layer, "num_batches_tracked", FF_I64, false, FF_INITIAL_CONSTANT,
                           0);
    return ff_graph_append(graph, &layer);
}

/* For folding: the scale, at most gamma / sqrt(epsilon), must fit into 16 bits. */
#define LEAST_EPSILON 1e-6

static ff_status norm_shape(const ff_plan *plan, const ff_layer *layer, ff_tensor *t,
                            ff_error *error) {
    const uint64_t values = (uint64_t)t->n * (uint64_t)t->h * (uint64_t)t->w;
    if (!plan->training || layer->held || values != 1 || plan->compute->ranks.count) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s: a batch norm over one value per channel (1 sample, 1x1 pixels) has no "
                   "variance to train with; use a larger batch or larger images",
                   layer->name);
}

/* Fuses the add after the norm, if the other summand exists by then (of two norms, the later one
 * takes the add), and the activation after it. */
static void norm_fuse(ff_fuser *f, ff_op *op) {
    const ff_layer *layers = f->plan->graph->layers;
    op->norm = (ff_norm_op){.held = layers[op->layer].held && !ff_op_trains(f->plan, op, 0) &&
                                    !ff_op_trains(f->plan, op, 1),
                            .mask = FF_BUFFER_NONE,
                            .saved = FF_BUFFER_NONE,
                            .fold = FF_BUFFER_NONE,
                            .factors = FF_BUFFER_NONE};
    const ff_node add = ff_fuser_only_user(f, op->out, FF_LAYER_ADD);
    if (add >= 0) {
        const ff_node other = layers[add].from == op->out ? layers[add].from2 : layers[add].from;
        if (other < op->out) {
            op->from2 = other;
            ff_fuser_take(f, op, add);
        }
    }
    /* after an addition the activation's input is not available in the backward pass; ReLU needs
     * only a bit of it */
    const ff_node after = ff_fuser_only_user(f, op->out, FF_LAYER_ACTIVATION);
    if (after < 0) return;
    if (op->from2 >= 0 && layers[after].activation != FF_ACTIVATION_RELU) return;
    op->norm.activation = layers[after].activation;
    ff_fuser_take(f, op, after);
}

/* Pairs the norm with the operation before it, if that operation can compute statistics and this is
 * the first norm to read its output. Whether a convolution can is known when it is planned. A pool
 * computes the whole statistics, of its rank; if only the norm reads it, the norm's backward pass
 * also takes over the pool's. */
static void pair_statistics(const ff_fuser *f, ff_op *norm) {
    const ff_plan *plan = f->plan;
    const unsigned fusions = plan->compute->fusions;
    ff_op *maker = plan->ops;
    while (maker < norm && maker->out != norm->from) maker++;
    if (maker == norm) return;
    ff_op **counts_for = NULL;
    if (maker->type == &ff_op_conv && fusions & FF_FUSE_CONV_STATISTICS &&
        !plan->graph->layers[maker->layer].bias)
        counts_for = &maker->conv.counts_for;
    if (maker->type == &ff_op_pool && fusions & FF_FUSE_POOL_STATISTICS &&
        !plan->compute->ranks.count)
        counts_for = &maker->pool.counts_for;
    if (!counts_for || *counts_for) return;
    *counts_for = norm;
    norm->norm.counted_by = maker;
    if (maker->type != &ff_op_pool || norm->from2 >= 0 || !plan->wanted[maker->from]) return;
    const ff_pool pool = ff_op_pool_of(plan, maker->layer, maker, &maker->input);
    if (ff_pool_tiles(&pool) && ff_fuser_only_user(f, maker->out, FF_LAYER_NORM) >= 0)
        norm->norm.passes = maker;
}

/* Whether the table may fold a norm with this activation. */
static bool folds(const ff_compute *compute, ff_activation activation) {
    const unsigned fusion = activation == FF_ACTIVATION_RELU    ? FF_FUSE_NORM_CONV
                            : activation == FF_ACTIVATION_RELU6 ? FF_FUSE_NORM_DEPTHWISE
                                                                : 0;
    return compute->fusions & fusion;
}

/* Pairs the norm, with its ReLU or ReLU6, with the convolution that is its only reader, to be
 * folded into that convolution, unless the norm's backward pass needs sums of other ranks. Whether
 * the fold is possible is known when the convolution is planned. */
static void pair_fold(const ff_fuser *f, ff_op *norm) {
    ff_plan *plan = f->plan;
    if (!folds(plan->compute, norm->norm.activation) || plan->compute->ranks.count ||
        norm->from2 >= 0 || !ff_op_trains(plan, norm, 0) || !ff_op_trains(plan, norm, 1) ||
        plan->graph->layers[norm->layer].epsilon < LEAST_EPSILON)
        return;
    const ff_node reader = ff_fuser_only_user(f, norm->out, FF_LAYER_CONV);
    for (ff_op *conv = norm + 1; conv < plan->ops + plan->op_count && reader >= 0; conv++) {
        if (conv->layer != reader || conv->type != &ff_op_conv) continue;
        if (plan->graph->layers[reader].bias || !ff_op_trains(plan, conv, 0)) return;
        norm->norm.folded_by = conv;
        norm->unwritten = true;
        conv->conv.folds = norm;
    }
}

/* Pairs the norm with the norm that it adds, if nothing else reads that one: it is never written.
 */
static void pair_added(const ff_fuser *f, ff_op *norm) {
    if (!(f->plan->compute->fusions & FF_FUSE_NORM_ADD) || norm->from2 < 0) return;
    ff_op *other = f->plan->ops;
    while (other < norm && other->out != norm->from2) other++;
    if (other == norm || other->type != &ff_op_norm || other->from2 >= 0 ||
        other->norm.activation != FF_ACTIVATION_NONE ||
        ff_fuser_only_user(f, other->out, FF_LAYER_ADD) < 0)
        return;
    norm->norm.adds = other;
    other->norm.added_by = norm;
    other->unwritten = true;
}

static void norm_pair(const ff_fuser *f, ff_op *op) {
    if (!f->plan->training) return;
    pair_added(f, op);
    if (op->norm.held) return;
    pair_statistics(f, op);
    pair_fold(f, op);
}

/* The offset of ff_norm.ranks' doubles in a norm's scratch, after the table's floats. */
static size_t ranks_at(const ff_plan *plan, const ff_op *op) {
    const size_t floats = plan->compute->ops->norm_scratch(plan->compute, &op->output);
    return floats + floats % 2;
}
static size_t ranks_floats(const ff_plan *plan, const ff_op *op) {
    const ff_norm norm = {.shape = op->output};
    const size_t count = (size_t)plan->compute->ranks.count;
    return count ? 2 * (1 + count) * ff_norm_told(&norm) : 0;
}

static ff_norm_ranks ranks_of(const ff_pass *pass, const ff_op *op) {
    const ff_norm norm = {.shape = op->output};
    const int count = pass->training && !op->norm.held ? pass->compute->ranks.count : 0;
    if (!count) return (ff_norm_ranks){0};
    // cppcheck-suppress invalidPointerCast ; scratch is memory for either, 64-byte aligned
    double *own = (double *)(ff_pass_norm_scratch(pass) + ranks_at(pass->plan, op));
    return (ff_norm_ranks){count, own, own + ff_norm_told(&norm)};
}

static ff_status norm_plan_forward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_plan *plan = b->plan;
    ff_norm_op *own = &op->norm;
    const ff_compute_ops *table = plan->compute->ops;
    const size_t channels = (size_t)ff_tensor_padded_channels(&op->output);
    const size_t scratch = ranks_at(plan, op) + ranks_floats(plan, op);
    if (scratch > b->norm_floats) b->norm_floats = scratch;
    if (own->folded_by) {
        const size_t bytes = 2 * channels * plan->compute->element_bytes;
        FF_TRY(ff_plan_buffer(plan, FF_ARENA_ACTIVATIONS, bytes, now, &own->fold, error));
        ff_plan_use(plan, own->fold, ff_op_forward_time(plan, own->folded_by));
    }
    FF_TRY(ff_plan_buffer(plan, FF_ARENA_ACTIVATIONS, 2 * channels * sizeof(float), now,
                          &own->saved, error));
    if (own->counted_by) ff_plan_use(plan, own->saved, ff_op_forward_time(plan, own->counted_by));
    if (own->adds) ff_plan_use(plan, own->adds->norm.saved, now);
    /* the backward pass of a ReLU after an addition reads the mask instead of the output */
    if (!plan->training || !table->norm_mask || op->from2 < 0) return FF_OK;
    if (own->activation != FF_ACTIVATION_RELU) return FF_OK;
    return ff_plan_buffer(plan, FF_ARENA_ACTIVATIONS, table->norm_mask(plan->compute, &op->output),
                          now, &own->mask, error);
}

ff_status ff_op_norm_plan_folded(ff_plan *plan, ff_op *norm, int now, ff_error *error) {
    const size_t channels = (size_t)ff_tensor_padded_channels(&norm->output);
    FF_TRY(ff_plan_buffer(plan, FF_ARENA_SCRATCH, 3 * channels * sizeof(float), now,
                          &norm->norm.factors, error));
    ff_plan_use(plan, norm->norm.factors, ff_op_backward_time(plan, norm));
    ff_plan_use(plan, norm->norm.saved, now);
    ff_plan_use(plan, norm->norm.fold, now);
    return FF_OK;
}

static ff_status norm_plan_backward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_plan *plan = b->plan;
    ff_norm_op *own = &op->norm;
    ff_plan_use(plan, op->x, now);
    ff_plan_use(plan, own->saved, now);
    if (op->from2 >= 0 && own->activation)
        ff_plan_use(plan, own->mask == FF_BUFFER_NONE ? op->y : own->mask, now);
    if (own->passes && own->folded_by) own->passes = NULL; /* the fold computes x's gradient */
    if (own->passes) {
        ff_plan_use(plan, own->passes->pool.index, now);
        return ff_planner_give_new(b, own->passes->from, now, &op->dx, error);
    }
    if (op->from2 < 0 || !plan->wanted[op->from2]) return ff_planner_pass_on(b, op, error);
    op->dx2 = op->dy;
    FF_TRY(ff_planner_give(b, op->from2, op->dx2, error));
    return ff_planner_give_new(b, op->from, now, &op->dx, error);
}

ff_norm ff_op_norm_of(const ff_pass *pass, const ff_op *op) {
    const ff_layer *layer = ff_pass_layer(pass, op);
    float *saved = ff_pass_at(pass, op->norm.saved);
    ff_tensor shape = op->output;
    if (pass->empty) shape.n = 0;
    return (ff_norm){
        .shape = shape,
        .activation = op->norm.activation,
        .momentum = (float)layer->momentum,
        .epsilon = (float)layer->epsilon,
        .held = op->norm.held,
        .gamma = ff_pass_parameter(pass, op, 0),
        .beta = ff_pass_parameter(pass, op, 1),
        .running_mean = ff_pass_parameter(pass, op, 2),
        .running_var = ff_pass_parameter(pass, op, 3),
        .mean = saved,
        .inv_std = saved + ff_tensor_padded_channels(&op->output),
        .x = ff_pass_at(pass, op->x),
        .residual = ff_pass_at(pass, op->x2),
        .y = ff_pass_at(pass, op->y),
        .mask = ff_pass_at(pass, op->norm.mask),
        .ranks = ranks_of(pass, op),
    };
}

ff_fold ff_op_fold_of(const ff_pass *pass, const ff_op *op) {
    const size_t channels = (size_t)ff_tensor_padded_channels(&op->output);
    char *scale = ff_pass_at(pass, op->norm.fold);
    return (ff_fold){
        .norm = ff_op_norm_of(pass, op),
        .scale = scale,
        .shift = scale + channels * pass->compute->element_bytes,
        .dgamma = ff_pass_gradient(pass, op, 0),
        .dbeta = ff_pass_gradient(pass, op, 1),
        .factors = ff_pass_at(pass, op->norm.factors),
    };
}

/* With the sums, if a convolution computes them; a pool computes the whole statistics. */
static ff_norm with_statistics(const ff_pass *pass, const ff_op *op) {
    ff_norm norm = ff_op_norm_of(pass, op);
    const ff_op *maker = op->norm.counted_by;
    if (maker && maker->type == &ff_op_conv && !pass->empty)
        norm.sums = ff_pass_at(pass, maker->conv.sums);
    norm.counted = maker && !norm.sums && !pass->empty;
    return norm;
}

static void norm_forward(const ff_pass *pass, const ff_op *op) {
    ff_norm norm = with_statistics(pass, op), other;
    if (op->norm.adds) {
        other = ff_op_norm_of(pass, op->norm.adds);
        norm.residual_norm = &other;
    }
    float *scratch = ff_pass_norm_scratch(pass);
    if (op->norm.folded_by) {
        ff_fold fold = ff_op_fold_of(pass, op);
        fold.norm = norm;
        pass->table->fold_norm(pass->compute, &fold, pass->training, scratch);
    } else if (pass->training)
        pass->table->norm_train(pass->compute, &norm, scratch);
    else
        pass->table->norm_evaluate(pass->compute, &norm, scratch);
}

static void norm_backward(const ff_pass *pass, const ff_op *op) {
    void *dy = ff_pass_at(pass, op->dy), *dx = ff_pass_at(pass, op->dx);
    if (op->norm.folded_by) {
        const ff_fold fold = ff_op_fold_of(pass, op);
        if (pass->table->fold_finish) pass->table->fold_finish(pass->compute, &fold, dy, dx);
        return;
    }
    const ff_op *pooled = op->norm.passes;
    const ff_pool pool =
        pooled ? ff_op_pool_of(pass->plan, pooled->layer, pooled, &pooled->input) : (ff_pool){0};
    const ff_norm_backward norm = {
        .forward = ff_op_norm_of(pass, op),
        .dy = dy,
        .dy2 = ff_pass_at(pass, op->dy2),
        .dx = dx,
        .dresidual = ff_pass_at(pass, op->dx2),
        .dgamma = ff_pass_gradient(pass, op, 0),
        .dbeta = ff_pass_gradient(pass, op, 1),
        .pool = pooled ? &pool : NULL,
        .index = pooled ? ff_pass_at(pass, pooled->pool.index) : NULL,
    };
    pass->table->norm_backward(pass->compute, &norm, ff_pass_norm_scratch(pass));
}

static void norm_describe(const ff_plan *plan, const ff_op *op, bool forward,
                          char text[FF_OP_NAME]) {
    const char *after = ff_activation_called(op->norm.activation).text;
    const char *how = op->norm.held                    ? ", statistics held"
                      : op->norm.folded_by && forward  ? ", scale alone"
                      : op->norm.folded_by             ? ", finish"
                      : op->norm.added_by && forward   ? ", statistics alone"
                      : op->norm.counted_by && forward ? ", statistics made before"
                      : op->norm.passes && !forward    ? ", through the pool before it"
                                                       : "";
    (void)plan;
    snprintf(text, FF_OP_NAME, "norm%s%s%s%s%s", op->from2 >= 0 ? ", add" : "",
             op->norm.adds && forward ? " of a norm" : "", *after ? ", " : "", after, how);
}

const ff_op_type ff_op_norm = {
    .shape = norm_shape,
    .fuse = norm_fuse,
    .pair = norm_pair,
    .plan_forward = norm_plan_forward,
    .plan_backward = norm_plan_backward,
    .adds_two = true,
    .forward = norm_forward,
    .backward = norm_backward,
    .describe = norm_describe,
};
