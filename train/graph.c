#include "train/graph.h"

#include "format/base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A side of an image or a count of channels beyond this is a mistake, and products of three of them
 * stay within 64 bits. */
enum { LARGEST = 1 << 20 };

ff_status ff_graph_create(ff_graph **out, int channels, int height, int width, ff_error *error) {
    ff_graph *graph;
    *out = NULL;
    if (channels < 1 || height < 1 || width < 1 || channels > LARGEST || height > LARGEST ||
        width > LARGEST)
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

/* A copy of the layer that `from` made, as the beginning of the next one. */
static ff_layer begin(const ff_graph *graph, ff_layer_kind kind, ff_node from, const char *name) {
    ff_layer layer = {.kind = kind, .from = from, .from2 = -1, .parameter = -1};
    snprintf(layer.name, sizeof layer.name, "%s", name);
    layer.c = graph->layers[from].c;
    layer.h = graph->layers[from].h;
    layer.w = graph->layers[from].w;
    return layer;
}

static ff_node append(ff_graph *graph, const ff_layer *layer) {
    size_t count = (size_t)graph->layer_count;
    if (ff_reserve(&graph->layers, &graph->layer_capacity, count + 1, sizeof *layer, "a layer",
                   &graph->failure) != FF_OK)
        return 0;
    graph->layers[count] = *layer;
    return graph->layer_count++;
}

/* Adds a parameter of the layer that will be appended next. */
static ff_graph_parameter *parameter(ff_graph *graph, ff_layer *layer, const char *name,
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

static void vector_parameter(ff_graph *graph, ff_layer *layer, const char *name, bool trained,
                             ff_initial initial, double scale) {
    ff_graph_parameter *p = parameter(graph, layer, name, FF_F32, trained, initial, scale);
    p->rank = 1;
    p->shape[0] = layer->c;
}

/* Sets the output size of a window layer; fails where it would be empty. */
static bool slide(ff_graph *graph, ff_layer *layer, const char *what) {
    const int h = layer->h, w = layer->w;
    if (layer->kernel_h < 1 || layer->kernel_w < 1 || layer->stride < 1 || layer->pad < 0) {
        ff_fail(&graph->failure, FF_USAGE, "%s: a %s of kernel %d, stride %d, padding %d",
                layer->name, what, layer->kernel_h, layer->stride, layer->pad);
        return false;
    }
    int room_h = h + 2 * layer->pad - layer->kernel_h;
    int room_w = w + 2 * layer->pad - layer->kernel_w;
    if (room_h < 0 || room_w < 0) {
        ff_fail(&graph->failure, FF_USAGE,
                "%s: a %dx%d %s with padding %d does not fit into %dx%d pixels; the images "
                "(%dx%d) are too small for this net",
                layer->name, layer->kernel_h, layer->kernel_w, what, layer->pad, h, w,
                graph->layers[0].h, graph->layers[0].w);
        return false;
    }
    layer->h = room_h / layer->stride + 1;
    layer->w = room_w / layer->stride + 1;
    return true;
}

ff_node ff_graph_conv(ff_graph *graph, ff_node from, const char *name, int channels,
                      const ff_conv_form *form) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer = begin(graph, FF_LAYER_CONV, from, name);
    const int inputs = layer.c, groups = form->groups ? form->groups : 1;
    layer.kernel_h = layer.kernel_w = form->kernel;
    layer.stride = form->stride ? form->stride : 1;
    layer.pad = form->pad;
    layer.groups = groups;
    layer.bias = form->bias;
    if (channels < 1 || channels > LARGEST) {
        ff_fail(&graph->failure, FF_USAGE, "%s: a convolution with %d channels", name, channels);
        return 0;
    }
    if (groups < 1 || inputs % groups || channels % groups) {
        ff_fail(&graph->failure, FF_USAGE,
                "%s: a convolution of %d to %d channels in %d groups; groups divide both", name,
                inputs, channels, groups);
        return 0;
    }
    if (!slide(graph, &layer, "convolution")) return 0;
    layer.c = channels;
    double taps = (double)form->kernel * form->kernel, bound = 1.0 / sqrt(taps * (inputs / groups));
    const bool fan_out = form->filters == FF_FILTERS_FAN_OUT;
    const ff_initial initial = fan_out                             ? FF_INITIAL_NORMAL
                               : form->filters == FF_FILTERS_DIRAC ? FF_INITIAL_DIRAC
                                                                   : FF_INITIAL_UNIFORM;
    ff_graph_parameter *p = parameter(graph, &layer, "weight", FF_F32, true, initial,
                                      fan_out ? sqrt(2.0 / (taps * channels)) : bound);
    p->rank = 4;
    p->shape[0] = channels;
    p->shape[1] = inputs / groups;
    p->shape[2] = p->shape[3] = form->kernel;
    if (form->bias)
        vector_parameter(graph, &layer, "bias", true,
                         fan_out ? FF_INITIAL_CONSTANT : FF_INITIAL_UNIFORM, fan_out ? 0 : bound);
    return append(graph, &layer);
}

ff_node ff_graph_norm(ff_graph *graph, ff_node from, const char *name) {
    return ff_graph_norm_with(graph, from, name, 0.1, 1e-5);
}

ff_node ff_graph_norm_with(ff_graph *graph, ff_node from, const char *name, double momentum,
                           double epsilon) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer = begin(graph, FF_LAYER_NORM, from, name);
    layer.momentum = momentum;
    layer.epsilon = epsilon;
    vector_parameter(graph, &layer, "weight", true, FF_INITIAL_CONSTANT, 1);
    vector_parameter(graph, &layer, "bias", true, FF_INITIAL_CONSTANT, 0);
    vector_parameter(graph, &layer, "running_mean", false, FF_INITIAL_CONSTANT, 0);
    vector_parameter(graph, &layer, "running_var", false, FF_INITIAL_CONSTANT, 1);
    parameter(graph, &layer, "num_batches_tracked", FF_I64, false, FF_INITIAL_CONSTANT, 0);
    return append(graph, &layer);
}

ff_activation_words ff_activation_called(ff_activation activation) {
    static const ff_activation_words words[] = {
        [FF_ACTIVATION_NONE] = {"", ""},
        [FF_ACTIVATION_RELU] = {"relu", "ReLU"},
        [FF_ACTIVATION_GELU] = {"gelu", "GELU"},
    };
    return words[activation];
}

ff_node ff_graph_activation(ff_graph *graph, ff_node from, ff_activation activation) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer =
        begin(graph, FF_LAYER_ACTIVATION, from, ff_activation_called(activation).layer);
    layer.activation = activation;
    return append(graph, &layer);
}

static ff_node pool(ff_graph *graph, ff_layer_kind kind, ff_node from, const char *name,
                    int kernel_h, int kernel_w, int stride, int pad) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer = begin(graph, kind, from, name);
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
    if (!slide(graph, &layer, "pooling")) return 0;
    return append(graph, &layer);
}

ff_node ff_graph_max_pool(ff_graph *graph, ff_node from, const char *name, int kernel, int stride,
                          int pad) {
    return pool(graph, FF_LAYER_MAX_POOL, from, name, kernel, kernel, stride, pad);
}

ff_node ff_graph_average_pool(ff_graph *graph, ff_node from, const char *name, int kernel,
                              int stride, int pad) {
    return pool(graph, FF_LAYER_AVERAGE_POOL, from, name, kernel, kernel, stride, pad);
}

ff_node ff_graph_global_pool(ff_graph *graph, ff_node from, const char *name) {
    if (graph->failure.status != FF_OK) return 0;
    const ff_layer *layer = &graph->layers[from];
    return pool(graph, FF_LAYER_AVERAGE_POOL, from, name, layer->h, layer->w, 1, 0);
}

ff_node ff_graph_linear(ff_graph *graph, ff_node from, const char *name, int outputs) {
    const ff_linear_form form = {.bias = true, .scale = 1, .rows = FF_ROWS_DEFAULT};
    return ff_graph_linear_with(graph, from, name, outputs, &form);
}

ff_node ff_graph_linear_with(ff_graph *graph, ff_node from, const char *name, int outputs,
                             const ff_linear_form *form) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer = begin(graph, FF_LAYER_LINEAR, from, name);
    const int64_t inputs = (int64_t)layer.c * layer.h * layer.w;
    if (outputs < 1 || outputs > LARGEST || inputs > INT32_MAX) {
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
    ff_graph_parameter *p = parameter(graph, &layer, "weight", FF_F32, true, initials[form->rows],
                                      form->rows == FF_ROWS_NORMAL ? 0.01 : bound);
    p->rank = 2;
    p->shape[0] = outputs;
    p->shape[1] = inputs;
    if (form->bias)
        vector_parameter(graph, &layer, "bias", true,
                         usual ? FF_INITIAL_UNIFORM : FF_INITIAL_CONSTANT, usual ? bound : 0);
    return append(graph, &layer);
}

ff_node ff_graph_add(ff_graph *graph, ff_node a, ff_node b) {
    if (graph->failure.status != FF_OK) return 0;
    const ff_layer *x = &graph->layers[a], *y = &graph->layers[b];
    if (x->c != y->c || x->h != y->h || x->w != y->w) {
        ff_fail(&graph->failure, FF_USAGE, "adding %s [%d, %d, %d] to %s [%d, %d, %d]", x->name,
                x->c, x->h, x->w, y->name, y->c, y->h, y->w);
        return 0;
    }
    ff_layer layer = begin(graph, FF_LAYER_ADD, a, "add");
    layer.from2 = b;
    return append(graph, &layer);
}

ff_node ff_graph_dropout(ff_graph *graph, ff_node from, double probability) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer = begin(graph, FF_LAYER_DROPOUT, from, "dropout");
    layer.probability = probability;
    if (!(probability >= 0 && probability < 1)) {
        ff_fail(&graph->failure, FF_USAGE, "dropout of probability %g; it lies in [0, 1)",
                probability);
        return 0;
    }
    return append(graph, &layer);
}

ff_node ff_graph_flatten(ff_graph *graph, ff_node from) {
    if (graph->failure.status != FF_OK) return 0;
    /* Only the view changes: linear layers take images as they are. */
    ff_layer layer = begin(graph, FF_LAYER_FLATTEN, from, "flatten");
    return append(graph, &layer);
}

void ff_graph_freeze(ff_graph *graph, ff_node layer, int k) {
    if (graph->failure.status != FF_OK) return;
    graph->parameters[graph->layers[layer].parameter + k].trained = false;
}

void ff_graph_refuse(ff_graph *graph, const char *format, ...) {
    if (graph->failure.status != FF_OK) return;
    char message[sizeof graph->failure.message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    ff_fail(&graph->failure, FF_USAGE, "%s", message);
}

void ff_graph_finish(ff_graph *graph, ff_node logits) {
    if (graph->failure.status != FF_OK) return;
    if (graph->layers[logits].kind != FF_LAYER_LINEAR)
        ff_fail(&graph->failure, FF_USAGE, "a net ends with a linear layer, not %s",
                graph->layers[logits].name);
    graph->output = logits;
}

double ff_graph_macs(const ff_graph *graph) {
    double macs = 0;
    for (int i = 0; i < graph->layer_count; i++) {
        const ff_layer *layer = &graph->layers[i];
        if (layer->kind != FF_LAYER_CONV && layer->kind != FF_LAYER_LINEAR) continue;
        const int64_t *shape = graph->parameters[layer->parameter].shape;
        double taps = layer->kind == FF_LAYER_CONV ? (double)(shape[2] * shape[3]) : 1;
        macs += taps * (double)shape[0] * (double)shape[1] * layer->h * layer->w;
    }
    return macs;
}
