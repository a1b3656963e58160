/* ResNet-18 (He et al. 2015, arXiv 1512.03385), torchvision's names, order and initial values.
 * The IMAGENET stem is the paper's; the CIFAR stem keeps small images whole: 3x3 stride 1, no
 * pooling. */
#include "train/models/models.h"

#include <stdio.h>

/* The name of a part of a block; valid until the next call with the same room. */
static const char *part(char room[64], int stage, int block, const char *what) {
    snprintf(room, 64, "layer%d.%d.%s", stage, block, what);
    return room;
}

/* x: [N, c, h, w] -> [N, channels, h / stride, w / stride]. */
static ff_node basic_block(ff_graph *graph, ff_node x, int stage, int block, int channels,
                           int stride) {
    char name[64];
    ff_node y = ff_graph_conv(graph, x, part(name, stage, block, "conv1"), channels, 3, stride, 1,
                              false, FF_FILTERS_FAN_OUT);
    y = ff_graph_norm(graph, y, part(name, stage, block, "bn1"));
    y = ff_graph_relu(graph, y);
    y = ff_graph_conv(graph, y, part(name, stage, block, "conv2"), channels, 3, 1, 1, false,
                      FF_FILTERS_FAN_OUT);
    y = ff_graph_norm(graph, y, part(name, stage, block, "bn2"));
    ff_node shortcut = x;
    if (stride != 1) {
        shortcut = ff_graph_conv(graph, x, part(name, stage, block, "downsample.0"), channels, 1,
                                 stride, 0, false, FF_FILTERS_FAN_OUT);
        shortcut = ff_graph_norm(graph, shortcut, part(name, stage, block, "downsample.1"));
    }
    return ff_graph_relu(graph, ff_graph_add(graph, y, shortcut));
}

static void build(ff_graph *graph, const ff_model_options *options) {
    const bool whole = options->stem == FF_STEM_CIFAR;
    ff_node x = ff_graph_conv(graph, 0, "conv1", 64, whole ? 3 : 7, whole ? 1 : 2, whole ? 1 : 3,
                              false, FF_FILTERS_FAN_OUT);
    x = ff_graph_norm(graph, x, "bn1");
    x = ff_graph_relu(graph, x);
    if (!whole) x = ff_graph_max_pool(graph, x, "maxpool", 3, 2, 1);
    for (int stage = 1; stage <= 4; stage++)
        for (int block = 0; block < 2; block++)
            x = basic_block(graph, x, stage, block, 32 << stage, stage > 1 && block == 0 ? 2 : 1);
    x = ff_graph_global_pool(graph, x, "avgpool");
    x = ff_graph_flatten(graph, x);
    ff_graph_finish(graph, ff_graph_linear(graph, x, "fc", options->classes));
}

const ff_net ff_net_resnet18 = {.name = "resnet18", .stems = true, .dropout = -1, .build = build};
