/* ResNet with 18, 34, 50, 101 and 152 layers (He et al. 2015, arXiv 1512.03385), with torchvision's
 * names, order and initial values; bottlenecks have the stride in the 3x3 convolution, as in
 * torchvision ("v1.5"). The IMAGENET stem is the paper's; the CIFAR stem keeps small images whole:
 * 3x3 stride 1, no pooling. */
#include "train/net/models/models.h"

#include <stdio.h>

/* A block: its position in the net, and its shape. */
typedef struct place {
    int stage, block;
    int channels; /* of its 3x3 convolutions */
    int stride;
} place;

/* The name of a part of a block; valid until the next call with the same buffer. */
static const char *part(char buffer[64], const place *at, const char *what) {
    snprintf(buffer, 64, "layer%d.%d.%s", at->stage, at->block, what);
    return buffer;
}

/* The convolution and batch norm with number `index` in a block. */
static ff_node conv_norm(ff_graph *graph, ff_node x, const place *at, int index, int channels,
                         int kernel, int stride) {
    char name[64], what[16];
    snprintf(what, sizeof what, "conv%d", index);
    x = ff_graph_conv(
        graph, x, part(name, at, what), channels,
        &(ff_conv_form){
            .kernel = kernel, .stride = stride, .pad = kernel / 2, .filters = FF_FILTERS_FAN_OUT});
    snprintf(what, sizeof what, "bn%d", index);
    return ff_graph_norm(graph, x, part(name, at, what));
}

/* x, or, if its shape differs from y's, a 1x1 convolution of x. */
static ff_node shortcut(ff_graph *graph, ff_node x, const place *at, int channels) {
    char name[64];
    if (at->stride == 1 && graph->layers[x].c == channels) return x;
    x = ff_graph_conv(
        graph, x, part(name, at, "downsample.0"), channels,
        &(ff_conv_form){.kernel = 1, .stride = at->stride, .filters = FF_FILTERS_FAN_OUT});
    return ff_graph_norm(graph, x, part(name, at, "downsample.1"));
}

/* x: [N, c, h, w] -> [N, channels, h / stride, w / stride]. */
static ff_node basic_block(ff_graph *graph, ff_node x, const place *at) {
    ff_node y = conv_norm(graph, x, at, 1, at->channels, 3, at->stride);
    y = conv_norm(graph, ff_graph_relu(graph, y), at, 2, at->channels, 3, 1);
    return ff_graph_relu(graph, ff_graph_add(graph, y, shortcut(graph, x, at, at->channels)));
}

/* x: [N, c, h, w] -> [N, 4 channels, h / stride, w / stride]. */
static ff_node bottleneck(ff_graph *graph, ff_node x, const place *at) {
    ff_node y = conv_norm(graph, x, at, 1, at->channels, 1, 1);
    y = conv_norm(graph, ff_graph_relu(graph, y), at, 2, at->channels, 3, at->stride);
    y = conv_norm(graph, ff_graph_relu(graph, y), at, 3, 4 * at->channels, 1, 1);
    return ff_graph_relu(graph, ff_graph_add(graph, y, shortcut(graph, x, at, 4 * at->channels)));
}

static void build(ff_graph *graph, const ff_model_options *options, const int blocks[4],
                  ff_node (*block)(ff_graph *graph, ff_node x, const place *at)) {
    const bool whole = options->stem == FF_STEM_CIFAR;
    ff_node x = ff_graph_conv(graph, 0, "conv1", 64,
                              &(ff_conv_form){.kernel = whole ? 3 : 7,
                                              .stride = whole ? 1 : 2,
                                              .pad = whole ? 1 : 3,
                                              .filters = FF_FILTERS_FAN_OUT});
    x = ff_graph_norm(graph, x, "bn1");
    x = ff_graph_relu(graph, x);
    if (!whole) x = ff_graph_max_pool(graph, x, "maxpool", 3, 2, 1);
    for (int stage = 1; stage <= 4; stage++)
        for (int i = 0; i < blocks[stage - 1]; i++) {
            const place at = {stage, i, 32 << stage, stage > 1 && i == 0 ? 2 : 1};
            x = block(graph, x, &at);
        }
    x = ff_graph_global_pool(graph, x, "avgpool");
    x = ff_graph_flatten(graph, x);
    ff_graph_finish(graph, ff_graph_linear(graph, x, "fc", options->classes));
}

#define RESNET(net, block, ...)                                                                    \
    static void build_##net(ff_graph *graph, const ff_model_options *options) {                    \
        build(graph, options, (const int[4]){__VA_ARGS__}, block);                                 \
    }                                                                                              \
    const ff_net ff_net_##net = {.name = #net, .stems = true, .dropout = -1, .build = build_##net};

RESNET(resnet18, basic_block, 2, 2, 2, 2)
RESNET(resnet34, basic_block, 3, 4, 6, 3)
RESNET(resnet50, bottleneck, 3, 4, 6, 3)
RESNET(resnet101, bottleneck, 3, 4, 23, 3)
RESNET(resnet152, bottleneck, 3, 8, 36, 3)
