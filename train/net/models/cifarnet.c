/* cifarnet: the net that reaches 94 % on CIFAR-10 in seconds (K. Jordan 2024, "94% on CIFAR-10 in
 * 3.29 Seconds on a Single GPU", arXiv 2404.00498; the widths and the head come from its
 * successor airbench94_muon), with that program's names.
 *
 * A frozen 2x2 convolution turns the images into 24 channels; whitening.h sets it from the training
 * images before the first step. Three groups follow, each convolution -> pooling -> norm -> GELU ->
 * convolution -> norm -> GELU. Filters start as the identity, the norms' scales stay 1, the logits
 * are divided by the number of their inputs. 118 million multiply-accumulates per sample of 32x32
 * pixels; its recipe is fftrain --recipe cifar-speed. */
#include "train/net/models/models.h"

#include <stdio.h>

/* Momentum 0.4 and epsilon 1e-12, as in airbench. */
static ff_node norm(ff_graph *graph, ff_node x, const char *name) {
    x = ff_graph_norm_with(graph, x, name, 0.4, 1e-12);
    ff_graph_freeze(graph, x, 0);
    return ff_graph_gelu(graph, x);
}

/* x: [N, c, h, w] -> [N, channels, h / 2, w / 2]. */
static ff_node group(ff_graph *graph, ff_node x, int index, int channels) {
    static const char *const parts[] = {"conv1", "norm1", "conv2", "norm2"};
    char name[4][32];
    for (int i = 0; i < 4; i++) snprintf(name[i], sizeof name[i], "layers.%d.%s", index, parts[i]);
    x = ff_graph_conv(graph, x, name[0], channels,
                      &(ff_conv_form){.kernel = 3, .pad = 1, .filters = FF_FILTERS_DIRAC});
    x = norm(graph, ff_graph_max_pool(graph, x, "pool", 2, 2, 0), name[1]);
    x = ff_graph_conv(graph, x, name[2], channels,
                      &(ff_conv_form){.kernel = 3, .pad = 1, .filters = FF_FILTERS_DIRAC});
    return norm(graph, x, name[3]);
}

/* 32 x 32 pixels become 31 x 31, 15 x 15, 7 x 7, 3 x 3 and 1 x 1. */
static void build(ff_graph *graph, const ff_model_options *options) {
    enum { LAST = 256 };
    const int patch = 2 * 2 * options->channels;
    ff_node x =
        ff_graph_conv(graph, 0, "whiten", 2 * patch, &(ff_conv_form){.kernel = 2, .bias = true});
    ff_graph_freeze(graph, x, 0);
    x = group(graph, ff_graph_gelu(graph, x), 1, 64);
    x = group(graph, x, 2, 256);
    x = group(graph, x, 3, LAST);
    x = ff_graph_flatten(graph, ff_graph_max_pool(graph, x, "pool", 3, 3, 0));
    const ff_layer *last = &graph->layers[x];
    const ff_linear_form form = {.scale = 1.0 / ((double)last->c * last->h * last->w),
                                 .rows = FF_ROWS_UNIT};
    ff_graph_finish(graph, ff_graph_linear_with(graph, x, "head", options->classes, &form));
}

const ff_net ff_net_cifarnet = {.name = "cifarnet",
                                .stems = false,
                                .dropout = -1,
                                .dropout_small = -1,
                                .whitening = "whiten.weight",
                                .build = build};
