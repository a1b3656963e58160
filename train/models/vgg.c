/* VGG-16 with batch norms (Simonyan & Zisserman 2014, arXiv 1409.1556, configuration D),
 * torchvision's names, order and initial values.
 *
 * Its "stem" is its head: IMAGENET is torchvision's, three linear layers over 7x7 pixels with
 * dropout; CIFAR, for small images, takes the mean over the remaining pixels and one linear layer,
 * `classifier`. torchvision's AdaptiveAvgPool2d(7) is the identity at 224 pixels and a mean over
 * equal squares at multiples of that; other sizes are refused with that head. */
#include "train/models/models.h"

#include <stdio.h>

enum { POOL = 0, HEAD_SIDE = 7 };

/* Channels of the convolutions, and the poolings between them. */
static const int features[] = {64,   64,  POOL, 128, 128,  POOL, 256, 256, 256,
                               POOL, 512, 512,  512, POOL, 512,  512, 512, POOL};

static ff_node linear(ff_graph *graph, ff_node x, const char *name, int outputs) {
    const ff_linear_form form = {.bias = true, .scale = 1, .rows = FF_ROWS_NORMAL};
    return ff_graph_linear_with(graph, x, name, outputs, &form);
}

static ff_node imagenet_head(ff_graph *graph, ff_node x, const ff_model_options *options) {
    const int h = graph->layers[x].h, w = graph->layers[x].w;
    if (h != w || h % HEAD_SIDE)
        ff_graph_refuse(graph,
                        "the imagenet head takes images of 224x224 or a multiple of that, not "
                        "%dx%d; --stem cifar has a head for any size",
                        options->height, options->width);
    if (h > HEAD_SIDE)
        x = ff_graph_average_pool(graph, x, "avgpool", h / HEAD_SIDE, h / HEAD_SIDE, 0);
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

static void build(ff_graph *graph, const ff_model_options *options) {
    ff_node x = 0;
    char name[32];
    int index = 0; /* in torchvision's Sequential: a convolution, its norm and ReLU, a pooling */
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        snprintf(name, sizeof name, "features.%d", index);
        if (features[i] == POOL) {
            x = ff_graph_max_pool(graph, x, name, 2, 2, 0);
            index++;
            continue;
        }
        x = ff_graph_conv(
            graph, x, name, features[i],
            &(ff_conv_form){.kernel = 3, .pad = 1, .bias = true, .filters = FF_FILTERS_FAN_OUT});
        snprintf(name, sizeof name, "features.%d", index + 1);
        x = ff_graph_relu(graph, ff_graph_norm(graph, x, name));
        index += 3;
    }
    const bool small = options->stem == FF_STEM_CIFAR;
    ff_graph_finish(graph,
                    small ? cifar_head(graph, x, options) : imagenet_head(graph, x, options));
}

/* The default is torchvision's dropout, in the IMAGENET head. */
const ff_net ff_net_vgg16_bn = {.name = "vgg16_bn", .stems = true, .dropout = 0.5, .build = build};
