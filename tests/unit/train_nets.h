/* Small nets of every layer, and batches for them. */
#ifndef FF_TESTS_TRAIN_NETS_H
#define FF_TESTS_TRAIN_NETS_H

#include "tests/unit/train_helpers.h"

enum { CLASSES = 5 };

/* conv + bias, max pool, norm, ReLU, conv, average pool, dropout, linear over pixels */
static inline void build_plain(ff_graph *g) {
    ff_node x = ff_graph_conv(g, 0, "a", 6, &(ff_conv_form){.kernel = 3, .pad = 1, .bias = true});
    x = ff_graph_max_pool(g, x, "p", 2, 2, 0);
    x = ff_graph_relu(g, ff_graph_norm(g, x, "an"));
    x = ff_graph_conv(g, x, "b", 17, &(ff_conv_form){.kernel = 3, .bias = true});
    x = ff_graph_relu(g, x);
    x = ff_graph_adaptive_pool(g, x, "q", 3, 3);
    x = ff_graph_dropout(g, x, 0.25);
    ff_graph_finish(g, ff_graph_linear(g, ff_graph_flatten(g, x), "fc", CLASSES));
}

/* residuals of both kinds, as in a resnet with its stem */
static inline void build_residual(ff_graph *g) {
    ff_node x = ff_graph_conv(
        g, 0, "stem", 8,
        &(ff_conv_form){.kernel = 5, .stride = 2, .pad = 2, .filters = FF_FILTERS_FAN_OUT});
    x = ff_graph_relu(g, ff_graph_norm(g, x, "stemn"));
    x = ff_graph_max_pool(g, x, "p", 3, 2, 1);
    ff_node y = ff_graph_conv(
        g, x, "a", 8, &(ff_conv_form){.kernel = 3, .pad = 1, .filters = FF_FILTERS_FAN_OUT});
    y = ff_graph_relu(g, ff_graph_norm(g, y, "an"));
    y = ff_graph_conv(g, y, "b", 8,
                      &(ff_conv_form){.kernel = 3, .pad = 1, .filters = FF_FILTERS_FAN_OUT});
    x = ff_graph_relu(g, ff_graph_add(g, ff_graph_norm(g, y, "bn"), x));
    y = ff_graph_conv(
        g, x, "c", 20,
        &(ff_conv_form){.kernel = 3, .stride = 2, .pad = 1, .filters = FF_FILTERS_FAN_OUT});
    y = ff_graph_relu(g, ff_graph_norm(g, y, "cn"));
    y = ff_graph_conv(g, y, "d", 20,
                      &(ff_conv_form){.kernel = 3, .pad = 1, .filters = FF_FILTERS_FAN_OUT});
    y = ff_graph_norm(g, y, "dn");
    ff_node s = ff_graph_norm(
        g,
        ff_graph_conv(g, x, "s", 20,
                      &(ff_conv_form){.kernel = 1, .stride = 2, .filters = FF_FILTERS_FAN_OUT}),
        "sn");
    x = ff_graph_relu(g, ff_graph_add(g, y, s));
    x = ff_graph_global_pool(g, x, "avg");
    ff_graph_finish(g, ff_graph_linear(g, x, "fc", CLASSES));
}

/* values with several users, adds and ReLUs that are not fused, two linear layers */
static inline void build_tangled(ff_graph *g) {
    ff_node x = ff_graph_conv(g, 0, "a", 5, &(ff_conv_form){.kernel = 3, .pad = 1});
    ff_node u = ff_graph_relu(g, x);
    ff_node v = ff_graph_norm(g, x, "v");
    ff_node w = ff_graph_conv(g, x, "w", 5, &(ff_conv_form){.kernel = 1, .bias = true});
    x = ff_graph_add(g, ff_graph_add(g, u, v), w);
    ff_node y = ff_graph_norm(g, x, "y");
    y = ff_graph_add(g, y, x);
    y = ff_graph_max_pool(g, ff_graph_relu(g, y), "p", 3, 1, 1);
    y = ff_graph_linear(g, ff_graph_flatten(g, y), "h", 18);
    y = ff_graph_dropout(g, ff_graph_relu(g, y), 0.5);
    ff_graph_finish(g, ff_graph_linear(g, y, "fc", CLASSES));
}

/* a frozen convolution with a trained bias, GELU alone and after norms with fixed scales, filters
 * initialized as dirac's, scaled logits without a bias */
static inline void build_frozen(ff_graph *g) {
    ff_node x = ff_graph_conv(g, 0, "whiten", 7, &(ff_conv_form){.kernel = 2, .bias = true});
    ff_graph_freeze(g, x, 0);
    x = ff_graph_gelu(g, x);
    x = ff_graph_conv(g, x, "a", 9,
                      &(ff_conv_form){.kernel = 3, .pad = 1, .filters = FF_FILTERS_DIRAC});
    x = ff_graph_max_pool(g, x, "p", 2, 2, 0);
    x = ff_graph_norm_with(g, x, "an", 0.4, 1e-12);
    ff_graph_freeze(g, x, 0);
    x = ff_graph_gelu(g, x);
    x = ff_graph_conv(g, x, "b", 9,
                      &(ff_conv_form){.kernel = 3, .pad = 1, .filters = FF_FILTERS_DIRAC});
    ff_graph_freeze(g, x, 0);
    x = ff_graph_gelu(g, ff_graph_norm(g, x, "bn"));
    x = ff_graph_max_pool(g, x, "q", 3, 3, 0);
    const ff_linear_form form = {.scale = 0.25, .rows = FF_ROWS_UNIT};
    ff_graph_finish(g, ff_graph_linear_with(g, x, "head", CLASSES, &form));
}

/* groups of one channel (3x3 and others), and of several */
static inline void build_grouped(ff_graph *g) {
    const ff_conv_form wide = {.kernel = 3, .pad = 1, .groups = 2};
    const ff_conv_form same = {.kernel = 3, .pad = 1, .groups = 20, .bias = true};
    const ff_conv_form half = {.kernel = 3, .stride = 2, .pad = 1, .groups = 20};
    const ff_conv_form five = {.kernel = 5, .pad = 2, .groups = 20};
    ff_node x = ff_graph_gelu(g, ff_graph_conv(g, 0, "stem", 16, &(ff_conv_form){.kernel = 3}));
    x = ff_graph_gelu(g, ff_graph_norm(g, ff_graph_conv(g, x, "a", 16, &wide), "an"));
    x = ff_graph_conv(g, x, "b", 20, &(ff_conv_form){.kernel = 1, .bias = true});
    x = ff_graph_gelu(g, ff_graph_conv(g, x, "c", 20, &same));
    x = ff_graph_norm(g, ff_graph_conv(g, x, "d", 20, &half), "dn");
    x = ff_graph_conv(g, x, "e", 20, &five);
    ff_graph_finish(g, ff_graph_linear(g, ff_graph_flatten(g, x), "fc", CLASSES));
}

/* an inverted residual, as in mobilenet_v2, and ReLU6 where it is not fused */
static inline void build_inverted(ff_graph *g) {
    const ff_conv_form wide = {.kernel = 1, .filters = FF_FILTERS_FAN_OUT};
    const ff_conv_form deep = {.kernel = 3, .pad = 1, .groups = 24, .filters = FF_FILTERS_FAN_OUT};
    ff_node x = ff_graph_relu6(g, ff_graph_conv(g, 0, "stem", 8, &(ff_conv_form){.kernel = 3}));
    ff_node y = ff_graph_relu6(g, ff_graph_norm(g, ff_graph_conv(g, x, "a", 24, &wide), "an"));
    y = ff_graph_relu6(g, ff_graph_norm(g, ff_graph_conv(g, y, "b", 24, &deep), "bn"));
    y = ff_graph_norm(g, ff_graph_conv(g, y, "c", 8, &wide), "cn");
    x = ff_graph_relu6(g, ff_graph_add(g, x, y));
    x = ff_graph_flatten(g, ff_graph_global_pool(g, x, "avg"));
    ff_graph_finish(g, ff_graph_linear(g, x, "fc", CLASSES));
}

typedef struct net_case {
    const char *name;
    void (*build)(ff_graph *graph);
    int channels, height, width, batch;
} net_case;

static const net_case cases[] = {
    {"plain", build_plain, 2, 9, 8, 4},     {"residual", build_residual, 3, 16, 12, 3},
    {"tangled", build_tangled, 4, 5, 6, 3}, {"frozen", build_frozen, 3, 10, 9, 5},
    {"grouped", build_grouped, 3, 9, 8, 3}, {"inverted", build_inverted, 3, 9, 8, 3},
};
enum { CASES = 6 };

typedef struct samples {
    float *images; /* NCHW, which every table reads */
    int64_t labels[16];
    float weights[16];
    ff_batch batch;
} samples;

static inline void draw(samples *s, const net_case *k) {
    dice d = {.seed = 21};
    s->images = random_floats(&d, (size_t)k->batch * k->channels * k->height * k->width);
    for (int n = 0; n < 16; n++) {
        s->labels[n] = between(&d, 0, CLASSES - 1);
        s->weights[n] = 1;
    }
    s->batch = (ff_batch){
        .images = s->images, .labels = s->labels, .label_dtype = FF_I64, .weights = s->weights};
}

/* A parameter, or its gradient, in torch's order. */
static inline float *exported(const net *n, int p, ff_parameter_part part) {
    const ff_graph_parameter *parameter = &n->graph->parameters[p];
    size_t count = 1;
    for (int i = 0; i < parameter->rank; i++) count *= (size_t)parameter->shape[i];
    float *to = floats(count);
    ff_store_export(&n->store, p, part, to);
    return to;
}

#endif
