/* Max and average pools; a pool may compute the statistics of the norm after it. */
#include "train/net/ops/ops.h"

#include <stdio.h>

/* The most adaptive windows along a side: their number times FF_GRAPH_LARGEST fits into 31 bits. */
enum { MOST_WINDOWS = 1 << 10 };

static ff_node add_pool(ff_graph *graph, ff_layer_kind kind, ff_node from, const char *name,
                        int kernel_h, int kernel_w, int stride, int pad) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer = ff_graph_begin(graph, kind, from, name);
    layer.kernel_h = kernel_h;
    layer.kernel_w = kernel_w;
    layer.stride = stride;
    layer.pad = pad;
    if (pad * 2 > kernel_h || pad * 2 > kernel_w ||
        (kind == FF_LAYER_MAX_POOL && kernel_h * kernel_w > 127)) {
        ff_fail(&graph->failure, FF_USAGE,
                "%s: a pooling of kernel %dx%d with padding %d (the padding is at most half the "
                "kernel, a max pool's kernel at most 11x11)",
                name, kernel_h, kernel_w, pad);
        return 0;
    }
    if (!ff_graph_slide(graph, &layer, "pooling")) return 0;
    return ff_graph_append(graph, &layer);
}

ff_node ff_graph_max_pool(ff_graph *graph, ff_node from, const char *name, int kernel, int stride,
                          int pad) {
    return add_pool(graph, FF_LAYER_MAX_POOL, from, name, kernel, kernel, stride, pad);
}

ff_node ff_graph_adaptive_pool(ff_graph *graph, ff_node from, const char *name, int height,
                               int width) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer = ff_graph_begin(graph, FF_LAYER_AVERAGE_POOL, from, name);
    if (layer.h == height && layer.w == width) return from;
    if (height < 1 || width < 1 || height > MOST_WINDOWS || width > MOST_WINDOWS) {
        ff_fail(&graph->failure, FF_USAGE,
                "%s: a pooling to %dx%d pixels; at most %dx%d are possible", name, height, width,
                MOST_WINDOWS, MOST_WINDOWS);
        return 0;
    }
    layer.h = height;
    layer.w = width;
    layer.adaptive = true;
    return ff_graph_append(graph, &layer);
}

ff_node ff_graph_global_pool(ff_graph *graph, ff_node from, const char *name) {
    if (graph->failure.status != FF_OK) return 0;
    const ff_layer *layer = &graph->layers[from];
    return add_pool(graph, FF_LAYER_AVERAGE_POOL, from, name, layer->h, layer->w, 1, 0);
}

static void pool_fuse(ff_fuser *f, ff_op *op) {
    (void)f;
    op->pool = (ff_pool_op){.index = FF_BUFFER_NONE};
}

static ff_status pool_plan_forward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    const bool max = b->plan->graph->layers[op->layer].kind == FF_LAYER_MAX_POOL;
    if (!b->plan->training || !max) return FF_OK;
    return ff_plan_buffer(b->plan, FF_ARENA_ACTIVATIONS, ff_tensor_count(&op->output), now,
                          &op->pool.index, error);
}

static ff_status pool_plan_backward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_plan_use(b->plan, op->pool.index, now);
    return ff_planner_give_input(b, op, now, error);
}

ff_pool ff_op_pool_of(const ff_plan *plan, ff_node node, const ff_op *op, const ff_tensor *input) {
    const ff_layer *layer = &plan->graph->layers[node];
    ff_pool pool = {
        .input = *input,
        .output = op->output,
        .kernel_h = layer->kernel_h,
        .kernel_w = layer->kernel_w,
        .stride = layer->stride,
        .pad = layer->pad,
        .max = layer->kind == FF_LAYER_MAX_POOL,
        .adaptive = layer->adaptive,
    };
    pool.output.n = input->n;
    return pool;
}

static void pool_forward(const ff_pass *pass, const ff_op *op) {
    const ff_pool pool = ff_op_pool_of(pass->plan, op->layer, op, &op->input);
    const void *x = ff_pass_at(pass, op->x);
    void *y = ff_pass_at(pass, op->y);
    uint8_t *index = pass->training ? ff_pass_at(pass, op->pool.index) : NULL;
    if (pass->training && op->pool.counts_for) {
        const ff_norm norm = ff_op_norm_of(pass, op->pool.counts_for);
        pass->table->pool_norm(pass->compute, &pool, x, y, index, &norm,
                               ff_pass_norm_scratch(pass));
    } else {
        pass->table->pool_forward(pass->compute, &pool, x, y, index);
    }
}

static void pool_backward(const ff_pass *pass, const ff_op *op) {
    const ff_pool pool = ff_op_pool_of(pass->plan, op->layer, op, &op->input);
    void *dx = ff_pass_at(pass, op->dx);
    if (dx)
        pass->table->pool_backward(pass->compute, &pool, ff_pass_at(pass, op->dy),
                                   ff_pass_at(pass, op->pool.index), dx);
}

static void pool_describe(const ff_plan *plan, const ff_op *op, bool forward,
                          char text[FF_OP_NAME]) {
    const ff_layer *layer = &plan->graph->layers[op->layer];
    char windows[48];
    if (layer->adaptive)
        snprintf(windows, sizeof windows, "to %dx%d", layer->h, layer->w);
    else
        snprintf(windows, sizeof windows, "%dx%d /%d", layer->kernel_h, layer->kernel_w,
                 layer->stride);
    snprintf(text, FF_OP_NAME, "%s pool %s%s", layer->kind == FF_LAYER_MAX_POOL ? "max" : "average",
             windows, forward && op->pool.counts_for ? ", statistics for the norm" : "");
}

const ff_op_type ff_op_pool = {
    .fuse = pool_fuse,
    .plan_forward = pool_plan_forward,
    .plan_backward = pool_plan_backward,
    .forward = pool_forward,
    .backward = pool_backward,
    .describe = pool_describe,
};
