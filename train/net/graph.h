/* A net as a graph: layers, the shapes between them, and the names of its parameters. A function of
 * models/ builds it once; it is then planned (plan.h) for any number of batch sizes.
 *
 * Builder functions, each defined with its layer's operations (ops/NAME.c), return the node of
 * their output. The first failure sticks: later calls return immediately, and ff_graph_check
 * returns the failure, so a model's file is a list of layers without error handling. Thread rule:
 * one thread builds; afterwards the graph is read-only. */
#ifndef FF_TRAIN_GRAPH_H
#define FF_TRAIN_GRAPH_H

#include "format/base/status.h"
#include "format/disk/dtype.h"
#include "train/compute/arguments.h"

#include <stdbool.h>
#include <stdint.h>

typedef int ff_node; /* index into ff_graph.layers */

typedef enum ff_layer_kind {
    FF_LAYER_INPUT,
    FF_LAYER_CONV,
    FF_LAYER_NORM,
    FF_LAYER_ACTIVATION,
    FF_LAYER_MAX_POOL,
    FF_LAYER_AVERAGE_POOL,
    FF_LAYER_LINEAR,
    FF_LAYER_ADD,
    FF_LAYER_DROPOUT,
    FF_LAYER_FLATTEN,
    FF_LAYER_KINDS
} ff_layer_kind;

/* One layer and its output, [N, c, h, w]. The output of a linear layer is [N, c, 1, 1]. flatten
 * keeps the shape, because linear layers take images in their layout. */
typedef struct ff_layer {
    ff_layer_kind kind;
    char name[64];       /* torchvision's: "layer1.0.conv1"; else what the layer does */
    ff_node from, from2; /* inputs; from2 of ADD; else -1 */
    int c, h, w;
    int kernel_h, kernel_w, stride, pad; /* CONV (kernel_h = kernel_w), not adaptive pools */
    int groups;                          /* CONV: divides its input's and output's channels */
    bool adaptive;                       /* AVERAGE_POOL */
    bool bias;                           /* CONV, LINEAR */
    double momentum, epsilon;            /* NORM */
    bool held;                           /* NORM: training leaves its statistics unchanged */
    double scale;                        /* LINEAR: factor of its products */
    double probability;                  /* DROPOUT */
    ff_activation activation;            /* ACTIVATION */
    int parameter;                       /* index of its first parameter; -1 = none */
} ff_layer;

/* An activation's name as a layer, and in a text with others; "" for NONE. */
typedef struct ff_activation_words {
    const char *layer, *text;
} ff_activation_words;
ff_activation_words ff_activation_called(ff_activation activation);

/* How a parameter is initialised. */
typedef enum ff_initial {
    FF_INITIAL_CONSTANT, /* all `scale` */
    FF_INITIAL_UNIFORM,  /* in [-scale, scale] */
    FF_INITIAL_NORMAL,   /* of standard deviation `scale` */
    FF_INITIAL_UNIT,     /* uniform, divided by the standard deviation of the values drawn */
    /* Filters: in each group, the first filters, one per input channel, pass that channel through
     * (a 1 in the middle of the window, torch's dirac_); the other filters are uniform in [-scale,
     * scale]. */
    FF_INITIAL_DIRAC,
} ff_initial;

/* Order within a layer: CONV weight, bias. NORM weight, bias, running_mean, running_var,
 * num_batches_tracked. LINEAR weight, bias. A parameter that is not trained is stored with the
 * buffers (running statistics) and does not have a gradient. */
typedef struct ff_graph_parameter {
    char name[96]; /* "layer1.0.conv1.weight" */
    ff_dtype dtype;
    int rank;
    int64_t shape[4];
    bool trained;
    ff_initial initial;
    double scale;
    ff_node layer;
} ff_graph_parameter;

typedef struct ff_graph {
    ff_layer *layers; /* in the order of adding: inputs come before their users */
    int layer_count;
    ff_graph_parameter *parameters; /* in the order of the layers */
    int parameter_count;
    ff_node output; /* the logits */
    /* the rest is private */
    size_t layer_capacity, parameter_capacity;
    ff_graph_parameter nowhere; /* written when out of memory; never read */
    ff_error failure;
} ff_graph;

/* An empty graph whose node 0 is the input. The caller destroys it; ff_graph_destroy accepts NULL.
 */
FF_MUST_USE ff_status ff_graph_create(ff_graph **graph, int channels, int height, int width,
                                      ff_error *error);
void ff_graph_destroy(ff_graph **graph);

/* How the filters of a convolution are drawn. */
typedef enum ff_filters {
    FF_FILTERS_DEFAULT, /* torch's Conv2d: uniform within 1 / sqrt(fan in), the bias too */
    FF_FILTERS_FAN_OUT, /* torchvision's nets: normal, sqrt(2 / fan out) (He 2015); the bias 0 */
    FF_FILTERS_DIRAC,   /* FF_INITIAL_DIRAC, the rest as DEFAULT */
} ff_filters;

/* How the weights of a linear layer are drawn. */
typedef enum ff_rows {
    FF_ROWS_DEFAULT, /* torch's Linear: uniform within 1 / sqrt(inputs), the bias too */
    FF_ROWS_NORMAL,  /* torchvision's vgg: normal, 0.01; the bias 0 */
    FF_ROWS_UNIT,    /* FF_INITIAL_UNIT; the bias 0 */
} ff_rows;

typedef struct ff_linear_form {
    bool bias;
    double scale; /* of the products; usually 1 */
    ff_rows rows;
} ff_linear_form;

/* Square kernels; the same padding on all sides. `groups` as in torch's Conv2d; depthwise if
 * `groups` is the number of channels. */
typedef struct ff_conv_form {
    int kernel;
    int stride; /* 0 = 1 */
    int pad;
    int groups; /* 0 = 1 */
    bool bias;
    ff_filters filters;
} ff_conv_form;

ff_node ff_graph_conv(ff_graph *graph, ff_node from, const char *name, int channels,
                      const ff_conv_form *form);
/* Batch norm with torch's momentum (0.1) and epsilon (1e-5), or with others. */
ff_node ff_graph_norm(ff_graph *graph, ff_node from, const char *name);
ff_node ff_graph_norm_with(ff_graph *graph, ff_node from, const char *name, double momentum,
                           double epsilon);
ff_node ff_graph_activation(ff_graph *graph, ff_node from, ff_activation activation);
static inline ff_node ff_graph_relu(ff_graph *graph, ff_node from) {
    return ff_graph_activation(graph, from, FF_ACTIVATION_RELU);
}
static inline ff_node ff_graph_relu6(ff_graph *graph, ff_node from) {
    return ff_graph_activation(graph, from, FF_ACTIVATION_RELU6);
}
static inline ff_node ff_graph_gelu(ff_graph *graph, ff_node from) {
    return ff_graph_activation(graph, from, FF_ACTIVATION_GELU);
}
ff_node ff_graph_max_pool(ff_graph *graph, ff_node from, const char *name, int kernel, int stride,
                          int pad);
/* AdaptiveAvgPool2d((height, width)); adds nothing if the input has that size. */
ff_node ff_graph_adaptive_pool(ff_graph *graph, ff_node from, const char *name, int height,
                               int width);
/* The mean over all pixels: AdaptiveAvgPool2d(1). */
ff_node ff_graph_global_pool(ff_graph *graph, ff_node from, const char *name);
/* With a bias, unscaled, FF_ROWS_DEFAULT; or with other settings. */
ff_node ff_graph_linear(ff_graph *graph, ff_node from, const char *name, int outputs);
ff_node ff_graph_linear_with(ff_graph *graph, ff_node from, const char *name, int outputs,
                             const ff_linear_form *form);
ff_node ff_graph_add(ff_graph *graph, ff_node a, ff_node b);
ff_node ff_graph_dropout(ff_graph *graph, ff_node from, double probability);
ff_node ff_graph_flatten(ff_graph *graph, ff_node from);
/* The k-th parameter of a layer (0 = its weight) is not trained. For a convolution only the weight
 * can be frozen. */
void ff_graph_freeze(ff_graph *graph, ff_node layer, int k);
/* Names the logits: the output of a linear layer. */
void ff_graph_finish(ff_graph *graph, ff_node logits);

/* FF_OK, or the first failure: FF_USAGE naming the layer, its input and the resulting output. */
FF_MUST_USE ff_status ff_graph_check(const ff_graph *graph, ff_error *error);
/* For a graph of the same net for another size of images: marks norms as held as in `first`.
 * FF_USAGE if a parameter's shape depends on the size. */
FF_MUST_USE ff_status ff_graph_match(ff_graph *graph, const ff_graph *first, ff_error *error);

/* Elements of a parameter. */
size_t ff_graph_elements(const ff_graph_parameter *p);

/* ---- for layers' builders (ops/NAME.c) ---- */

/* A side of an image or a count of channels above this is a mistake; products of three such numbers
 * fit into 64 bits. */
enum { FF_GRAPH_LARGEST = 1 << 20 };

/* A layer whose output is set to the output of `from`; the caller changes it. */
ff_layer ff_graph_begin(const ff_graph *graph, ff_layer_kind kind, ff_node from, const char *name);
ff_node ff_graph_append(ff_graph *graph, const ff_layer *layer);
/* A parameter of the layer that is appended next. The caller sets its rank and shape; the second
 * function adds a vector over the layer's channels. */
ff_graph_parameter *ff_graph_add_parameter(ff_graph *graph, ff_layer *layer, const char *name,
                                           ff_dtype dtype, bool trained, ff_initial initial,
                                           double scale);
void ff_graph_add_vector(ff_graph *graph, ff_layer *layer, const char *name, bool trained,
                         ff_initial initial, double scale);
/* Sets the output size of a layer with a window; fails if the output would be empty. */
bool ff_graph_slide(ff_graph *graph, ff_layer *layer, const char *what);

/* Multiply-accumulates of one sample's forward pass: of one layer, and of all layers. */
double ff_graph_layer_macs(const ff_graph *graph, ff_node layer);
double ff_graph_macs(const ff_graph *graph);
/* The number of convolutions whose engines are chosen, identical ones counted once; with `normed`,
 * only those after a norm with ReLU. */
int ff_graph_conv_count(const ff_graph *graph, bool normed);

#endif
