/* MobileNetV2 of width 1 (Sandler et al. 2018, arXiv 1801.04381), with torchvision's names, order
 * and initial values. Inverted residuals widen by a 1x1 convolution, filter each channel alone and
 * narrow again, with ReLU6.
 *
 * The IMAGENET stem is torchvision's. The CIFAR stem is the usual form for small images: stride 1
 * in the first convolution and in the first stage with stride 2, so that 32 x 32 pixels become 4 x
 * 4. */
#include "train/net/models/models.h"

#include <stdio.h>

/* A stage of blocks with the same number of channels; the first block has the stride. */
static const struct stage {
    int widening, channels, blocks, stride;
} stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
              {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

/* A convolution and its norm: PREFIX.PLACE, and the next place in the same Sequential. */
static ff_node conv_norm(ff_graph *graph, ff_node x, const char *prefix, int place, int channels,
                         const ff_conv_form *form) {
    char name[80];
    snprintf(name, sizeof name, "%s.%d", prefix, place);
    x = ff_graph_conv(graph, x, name, channels, form);
    snprintf(name, sizeof name, "%s.%d", prefix, place + 1);
    return ff_graph_norm(graph, x, name);
}

/* The same, followed by ReLU6, in a Sequential of their own. */
static ff_node conv_norm_relu6(ff_graph *graph, ff_node x, const char *prefix, int channels,
                               const ff_conv_form *form) {
    return ff_graph_relu6(graph, conv_norm(graph, x, prefix, 0, channels, form));
}

/* x: [N, c, h, w] -> [N, channels, h / stride, w / stride]. `place`: the index in features. */
static ff_node inverted_residual(ff_graph *graph, ff_node x, int place, int widening, int channels,
                                 int stride) {
    const int inputs = graph->layers[x].c, hidden = inputs * widening;
    const ff_conv_form across = {.kernel = 1, .filters = FF_FILTERS_FAN_OUT};
    const ff_conv_form deep = {
        .kernel = 3, .stride = stride, .pad = 1, .groups = hidden, .filters = FF_FILTERS_FAN_OUT};
    ff_node y = x;
    int step = 0;
    char name[48], part[64];
    snprintf(name, sizeof name, "features.%d.conv", place);
    if (widening > 1) {
        snprintf(part, sizeof part, "%s.%d", name, step++);
        y = conv_norm_relu6(graph, y, part, hidden, &across);
    }
    snprintf(part, sizeof part, "%s.%d", name, step++);
    y = conv_norm_relu6(graph, y, part, hidden, &deep);
    y = conv_norm(graph, y, name, step, channels, &across);
    return stride == 1 && inputs == channels ? ff_graph_add(graph, x, y) : y;
}

static void build(ff_graph *graph, const ff_model_options *options) {
    enum { STAGES = sizeof stages / sizeof *stages, FIRST = 32, LAST = 1280 };
    const bool whole = options->stem == FF_STEM_CIFAR;
    const ff_conv_form stem = {
        .kernel = 3, .stride = whole ? 1 : 2, .pad = 1, .filters = FF_FILTERS_FAN_OUT};
    const ff_conv_form across = {.kernel = 1, .filters = FF_FILTERS_FAN_OUT};
    ff_node x = conv_norm_relu6(graph, 0, "features.0", FIRST, &stem);
    int place = 1;
    char name[32];
    for (int s = 0; s < STAGES; s++)
        for (int i = 0; i < stages[s].blocks; i++) {
            const int stride = i > 0 || (whole && s == 1) ? 1 : stages[s].stride;
            x = inverted_residual(graph, x, place++, stages[s].widening, stages[s].channels,
                                  stride);
        }
    snprintf(name, sizeof name, "features.%d", place);
    x = conv_norm_relu6(graph, x, name, LAST, &across);
    x = ff_graph_flatten(graph, ff_graph_global_pool(graph, x, "avgpool"));
    if (options->dropout > 0) x = ff_graph_dropout(graph, x, options->dropout);
    const ff_linear_form form = {.bias = true, .scale = 1, .rows = FF_ROWS_NORMAL};
    ff_graph_finish(graph, ff_graph_linear_with(graph, x, "classifier.1", options->classes, &form));
}

/* torchvision's dropout; small images have no dropout. */
const ff_net ff_net_mobilenet_v2 = {
    .name = "mobilenet_v2", .stems = true, .dropout = 0.2, .build = build};
