/* VGG with 11, 13, 16 and 19 layers, with batch norms (_bn) or without (Simonyan & Zisserman 2014,
 * arXiv 1409.1556, configurations A, B, D and E), with torchvision's names, order and initial
 * values.
 *
 * Its "stem" is its head: IMAGENET is torchvision's, three linear layers over 7x7 pixels with
 * dropout; CIFAR, for small images, takes the mean over the remaining pixels and one linear layer,
 * `classifier`. */
#include "train/net/models/models.h"

#include <stdio.h>

enum { STAGES = 5, HEAD_SIDE = 7 };

/* A layer's name from its place in torchvision's Sequential; valid until the next call with the
 * same buffer. */
static const char *feature(char buffer[32], int place) {
    snprintf(buffer, 32, "features.%d", place);
    return buffer;
}

static ff_node linear(ff_graph *graph, ff_node x, const char *name, int outputs) {
    const ff_linear_form form = {.bias = true, .scale = 1, .rows = FF_ROWS_NORMAL};
    return ff_graph_linear_with(graph, x, name, outputs, &form);
}

static ff_node imagenet_head(ff_graph *graph, ff_node x, const ff_model_options *options) {
    x = ff_graph_adaptive_pool(graph, x, "avgpool", HEAD_SIDE, HEAD_SIDE);
    x = ff_graph_relu(graph, linear(graph, ff_graph_flatten(graph, x), "classifier.0", 4096));
    if (options->dropout > 0) x = ff_graph_dropout(graph, x, options->dropout);
    x = ff_graph_relu(graph, linear(graph, x, "classifier.3", 4096));
    if (options->dropout > 0) x = ff_graph_dropout(graph, x, options->dropout);
    return linear(graph, x, "classifier.6", options->classes);
}

static ff_node cifar_head(ff_graph *graph, ff_node x, const ff_model_options *options) {
    x = ff_graph_flatten(graph, ff_graph_global_pool(graph, x, "avgpool"));
    if (options->dropout > 0) x = ff_graph_dropout(graph, x, options->dropout);
    return linear(graph, x, "classifier", options->classes);
}

/* convolutions: how many each stage has; a pooling ends the stage. The Sequential also counts
 * ReLUs. */
static void build(ff_graph *graph, const ff_model_options *options, bool normed,
                  const int convolutions[STAGES]) {
    static const int channels[STAGES] = {64, 128, 256, 512, 512};
    const ff_conv_form form = {.kernel = 3, .pad = 1, .bias = true, .filters = FF_FILTERS_FAN_OUT};
    ff_node x = 0;
    int place = 0;
    char name[32];
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < convolutions[stage]; i++) {
            x = ff_graph_conv(graph, x, feature(name, place++), channels[stage], &form);
            if (normed) x = ff_graph_norm(graph, x, feature(name, place++));
            x = ff_graph_relu(graph, x);
            place++;
        }
        x = ff_graph_max_pool(graph, x, feature(name, place++), 2, 2, 0);
    }
    const bool small = options->stem == FF_STEM_CIFAR;
    ff_graph_finish(graph,
                    small ? cifar_head(graph, x, options) : imagenet_head(graph, x, options));
}

/* The default is torchvision's dropout, in the IMAGENET head. */
#define VGG(net, normed, ...)                                                                      \
    static void build_##net(ff_graph *graph, const ff_model_options *options) {                    \
        build(graph, options, normed, (const int[STAGES]){__VA_ARGS__});                           \
    }                                                                                              \
    const ff_net ff_net_##net = {.name = #net, .stems = true, .dropout = 0.5, .build = build_##net};

VGG(vgg11, false, 1, 1, 2, 2, 2)
VGG(vgg11_bn, true, 1, 1, 2, 2, 2)
VGG(vgg13, false, 2, 2, 2, 2, 2)
VGG(vgg13_bn, true, 2, 2, 2, 2, 2)
VGG(vgg16, false, 2, 2, 3, 3, 3)
VGG(vgg16_bn, true, 2, 2, 3, 3, 3)
VGG(vgg19, false, 2, 2, 4, 4, 4)
VGG(vgg19_bn, true, 2, 2, 4, 4, 4)
