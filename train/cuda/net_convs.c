#include "train/cuda/net_convs.h"

#include "format/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { PADDED = 8 };

typedef struct convs {
    ff_net_conv *list;
    size_t count, capacity;
} convs;

static ff_status add(convs *to, ff_node layer, const ff_library_conv_spec *spec, ff_error *error) {
    for (size_t i = 0; i < to->count; i++)
        if (ff_library_conv_same(&to->list[i].spec, spec)) {
            to->list[i].layers++;
            return FF_OK;
        }
    FF_TRY(ff_reserve(&to->list, &to->capacity, to->count + 1, sizeof *to->list,
                      "a net's convolutions", error));
    to->list[to->count++] = (ff_net_conv){.layer = layer, .layers = 1, .spec = *spec};
    return FF_OK;
}

static int padded(int channels) {
    return (channels + PADDED - 1) / PADDED * PADDED;
}

static bool has_trained(const ff_graph *graph, ff_node layer) {
    for (int i = 0; i < graph->parameter_count; i++)
        if (graph->parameters[i].layer == layer && graph->parameters[i].trained) return true;
    return false;
}

static ff_status add_layer(convs *to, const ff_graph *graph, ff_node node, const bool *wanted,
                           ff_library_conv_spec spec, int image_channels, ff_error *error) {
    const ff_layer *layer = &graph->layers[node], *from = &graph->layers[layer->from];
    bool images = from->kind == FF_LAYER_INPUT;
    spec.h = from->h;
    spec.w = from->w;
    spec.c = !images ? padded(from->c) : image_channels > from->c ? image_channels : from->c;
    spec.k = padded(layer->c);
    spec.kernel = layer->kernel_h;
    spec.stride = layer->stride;
    spec.pad = layer->pad;
    spec.pass = FF_PASS_FORWARD;
    FF_TRY(add(to, node, &spec, error));
    spec.pass = FF_PASS_BACKWARD_DATA;
    if (wanted[layer->from]) FF_TRY(add(to, node, &spec, error));
    spec.pass = FF_PASS_BACKWARD_WEIGHTS;
    if (graph->parameters[layer->parameter].trained) FF_TRY(add(to, node, &spec, error));
    return FF_OK;
}

ff_status ff_net_convs(const ff_graph *graph, int batch, ff_precision precision, int image_channels,
                       ff_net_conv **list, int *count, ff_error *error) {
    convs found = {0};
    bool *wanted = NULL; /* the gradient of a layer's output */
    ff_library_conv_spec spec = {.precision = precision, .n = batch};
    ff_status status;
    *list = NULL;
    *count = 0;
    FF_TRY_DONE(ff_alloc(&wanted, (uint64_t)graph->layer_count, 1, "a net's convolutions", error));
    for (int i = 0; i < graph->layer_count; i++) {
        const ff_layer *layer = &graph->layers[i];
        wanted[i] = has_trained(graph, i) || (layer->from >= 0 && wanted[layer->from]) ||
                    (layer->from2 >= 0 && wanted[layer->from2]);
        if (layer->kind == FF_LAYER_CONV)
            FF_TRY_DONE(add_layer(&found, graph, i, wanted, spec, image_channels, error));
    }
    *list = found.list;
    *count = (int)found.count;
    found.list = NULL;
done:
    free(found.list);
    free(wanted);
    return status;
}
