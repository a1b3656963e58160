#include "train/net/graph.h"

#include "format/base/memory.h"
#include "train/compute/compute.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ff_status ff_graph_create(ff_graph **out, int channels, int height, int width, ff_error *error) {
    ff_graph *graph;
    *out = NULL;
    if (channels < 1 || height < 1 || width < 1 || channels > FF_GRAPH_LARGEST ||
        height > FF_GRAPH_LARGEST || width > FF_GRAPH_LARGEST)
        return ff_fail(error, FF_USAGE, "a net cannot take images of %d channels, %dx%d pixels",
                       channels, height, width);
    FF_TRY(ff_alloc(&graph, 1, sizeof *graph, "a graph", error));
    ff_status status =
        ff_reserve(&graph->layers, &graph->layer_capacity, 1, sizeof(ff_layer), "a layer", error);
    if (status != FF_OK) {
        free(graph);
        return status;
    }
    graph->layers[0] = (ff_layer){.kind = FF_LAYER_INPUT,
                                  .name = "input",
                                  .from = -1,
                                  .from2 = -1,
                                  .c = channels,
                                  .h = height,
                                  .w = width,
                                  .parameter = -1};
    graph->layer_count = 1;
    graph->output = -1;
    *out = graph;
    return FF_OK;
}

void ff_graph_destroy(ff_graph **graph) {
    if (!*graph) return;
    free((*graph)->layers);
    free((*graph)->parameters);
    free(*graph);
    *graph = NULL;
}

ff_status ff_graph_check(const ff_graph *graph, ff_error *error) {
    if (graph->failure.status == FF_OK) return FF_OK;
    return ff_fail(error, graph->failure.status, "%s", graph->failure.message);
}

/* ---- for layers' builders ---- */

ff_layer ff_graph_begin(const ff_graph *graph, ff_layer_kind kind, ff_node from, const char *name) {
    ff_layer layer = {.kind = kind, .from = from, .from2 = -1, .parameter = -1};
    snprintf(layer.name, sizeof layer.name, "%s", name);
    layer.c = graph->layers[from].c;
    layer.h = graph->layers[from].h;
    layer.w = graph->layers[from].w;
    return layer;
}

ff_node ff_graph_append(ff_graph *graph, const ff_layer *layer) {
    size_t count = (size_t)graph->layer_count;
    if (ff_reserve(&graph->layers, &graph->layer_capacity, count + 1, sizeof *layer, "a layer",
                   &graph->failure) != FF_OK)
        return 0;
    graph->layers[count] = *layer;
    return graph->layer_count++;
}

ff_graph_parameter *ff_graph_add_parameter(ff_graph *graph, ff_layer *layer, const char *name,
                                           ff_dtype dtype, bool trained, ff_initial initial,
                                           double scale) {
    size_t count = (size_t)graph->parameter_count;
    if (ff_reserve(&graph->parameters, &graph->parameter_capacity, count + 1,
                   sizeof *graph->parameters, "a parameter", &graph->failure) != FF_OK)
        return &graph->nowhere;
    ff_graph_parameter *p = &graph->parameters[graph->parameter_count];
    *p = (ff_graph_parameter){.dtype = dtype,
                              .trained = trained,
                              .initial = initial,
                              .scale = scale,
                              .layer = graph->layer_count};
    snprintf(p->name, sizeof p->name, "%s.%s", layer->name, name);
    if (layer->parameter < 0) layer->parameter = graph->parameter_count;
    graph->parameter_count++;
    return p;
}

void ff_graph_add_vector(ff_graph *graph, ff_layer *layer, const char *name, bool trained,
                         ff_initial initial, double scale) {
    ff_graph_parameter *p =
        ff_graph_add_parameter(graph, layer, name, FF_F32, trained, initial, scale);
    p->rank = 1;
    p->shape[0] = layer->c;
}

bool ff_graph_slide(ff_graph *graph, ff_layer *layer, const char *what) {
    const int h = layer->h, w = layer->w;
    if (layer->kernel_h < 1 || layer->kernel_w < 1 || layer->stride < 1 || layer->pad < 0) {
        ff_fail(&graph->failure, FF_USAGE, "%s: a %s of kernel %d, stride %d, padding %d",
                layer->name, what, layer->kernel_h, layer->stride, layer->pad);
        return false;
    }
    int slack_h = h + 2 * layer->pad - layer->kernel_h;
    int slack_w = w + 2 * layer->pad - layer->kernel_w;
    if (slack_h < 0 || slack_w < 0) {
        ff_fail(&graph->failure, FF_USAGE,
                "%s: a %dx%d %s with padding %d does not fit into %dx%d pixels; the images "
                "(%dx%d) are too small for this net",
                layer->name, layer->kernel_h, layer->kernel_w, what, layer->pad, h, w,
                graph->layers[0].h, graph->layers[0].w);
        return false;
    }
    layer->h = slack_h / layer->stride + 1;
    layer->w = slack_w / layer->stride + 1;
    return true;
}

/* ---- without an operation ---- */

ff_node ff_graph_flatten(ff_graph *graph, ff_node from) {
    if (graph->failure.status != FF_OK) return 0;
    /* No operation: linear layers take images in their layout. */
    ff_layer layer = ff_graph_begin(graph, FF_LAYER_FLATTEN, from, "flatten");
    return ff_graph_append(graph, &layer);
}

void ff_graph_freeze(ff_graph *graph, ff_node layer, int k) {
    if (graph->failure.status != FF_OK) return;
    graph->parameters[graph->layers[layer].parameter + k].trained = false;
}

void ff_graph_finish(ff_graph *graph, ff_node logits) {
    if (graph->failure.status != FF_OK) return;
    if (graph->layers[logits].kind != FF_LAYER_LINEAR)
        ff_fail(&graph->failure, FF_USAGE, "a net ends with a linear layer, not %s",
                graph->layers[logits].name);
    graph->output = logits;
}

double ff_graph_layer_macs(const ff_graph *graph, ff_node node) {
    const ff_layer *layer = &graph->layers[node];
    if (layer->kind != FF_LAYER_CONV && layer->kind != FF_LAYER_LINEAR) return 0;
    const int64_t *shape = graph->parameters[layer->parameter].shape;
    const double taps = layer->kind == FF_LAYER_CONV ? (double)(shape[2] * shape[3]) : 1;
    return taps * (double)shape[0] * (double)shape[1] * layer->h * layer->w;
}

double ff_graph_macs(const ff_graph *graph) {
    double macs = 0;
    for (int i = 0; i < graph->layer_count; i++) macs += ff_graph_layer_macs(graph, i);
    return macs;
}

/* ---- sizes of images ---- */

static ff_status check_parameter(const ff_graph *graph, const ff_graph *first, int index,
                                 ff_error *error) {
    const ff_graph_parameter *a = &first->parameters[index], *b = &graph->parameters[index];
    assert(strcmp(a->name, b->name) == 0);
    assert(a->rank != 4 || a->layer == b->layer); /* plans share convolutions by their layer */
    if (a->rank == b->rank && memcmp(a->shape, b->shape, sizeof a->shape) == 0) return FF_OK;
    const ff_layer *one = &first->layers[0], *other = &graph->layers[0];
    return ff_fail(
        error, FF_USAGE,
        "its parameter %s depends on the size of the images, %dx%d and %dx%d: this net is "
        "trained at one size only",
        a->name, one->w, one->h, other->w, other->h);
}

ff_status ff_graph_match(ff_graph *graph, const ff_graph *first, ff_error *error) {
    assert(first->parameter_count == graph->parameter_count);
    for (int i = 0; i < first->parameter_count; i++)
        FF_TRY(check_parameter(graph, first, i, error));
    for (int i = 0; i < graph->layer_count; i++) {
        ff_layer *layer = &graph->layers[i];
        if (layer->kind == FF_LAYER_NORM)
            layer->held = first->layers[first->parameters[layer->parameter].layer].held;
    }
    return FF_OK;
}

/* ---- convolutions ---- */

/* Whether the node is a convolution whose engines are chosen; with `normed`, whether it also
 * follows a norm with ReLU. */
static bool is_conv(const ff_graph *graph, int node, bool normed) {
    const ff_layer *layer = &graph->layers[node];
    if (layer->kind != FF_LAYER_CONV) return false;
    const ff_layer *from = &graph->layers[layer->from];
    const ff_conv_shape shape = {.input.c = from->c,
                                 .output.c = layer->c,
                                 .kernel = layer->kernel_h,
                                 .stride = layer->stride,
                                 .pad = layer->pad,
                                 .groups = layer->groups};
    if (ff_conv_is_depthwise(&shape)) return false;
    return !normed || (from->activation == FF_ACTIVATION_RELU && from->from >= 0 &&
                       graph->layers[from->from].kind == FF_LAYER_NORM);
}

static bool same_conv(const ff_graph *graph, int one, int other) {
    const ff_layer *a = &graph->layers[one], *b = &graph->layers[other];
    const ff_layer *from_a = &graph->layers[a->from], *from_b = &graph->layers[b->from];
    return a->c == b->c && a->kernel_h == b->kernel_h && a->stride == b->stride &&
           a->pad == b->pad && a->groups == b->groups && from_a->c == from_b->c &&
           from_a->h == from_b->h && from_a->w == from_b->w;
}

int ff_graph_conv_count(const ff_graph *graph, bool normed) {
    int count = 0;
    for (int i = 0; i < graph->layer_count; i++) {
        bool first = is_conv(graph, i, normed);
        for (int k = 0; k < i && first; k++)
            first = !is_conv(graph, k, normed) || !same_conv(graph, i, k);
        count += first;
    }
    return count;
}

size_t ff_graph_elements(const ff_graph_parameter *p) {
    size_t count = 1;
    for (int i = 0; i < p->rank; i++) count *= (size_t)p->shape[i];
    return count;
}
