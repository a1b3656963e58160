#include "train/checkpoint/onnx.h"

#include "format/base/file.h"
#include "format/cli/options.h"
#include "train/checkpoint/protobuf.h"
#include "train/net/plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPSET = 17, IR_VERSION = 8, NAME = 128 };

/* Fields of onnx.proto's messages, and values of its enums. */
enum { MODEL_IR_VERSION = 1, MODEL_PRODUCER, MODEL_PRODUCER_VERSION };
enum { MODEL_GRAPH = 7, MODEL_OPSETS, MODEL_PROPERTIES = 14 };
enum { OPSET_VERSION = 2 };
enum { PROPERTY_KEY = 1, PROPERTY_VALUE };
enum { GRAPH_NODES = 1, GRAPH_NAME, GRAPH_TENSORS = 5, GRAPH_INPUTS = 11, GRAPH_OUTPUTS };
enum { NODE_INPUTS = 1, NODE_OUTPUTS, NODE_NAME, NODE_TYPE, NODE_ATTRIBUTES };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_F, ATTRIBUTE_I, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT, TYPE_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE, TENSOR_NAME = 8, TENSOR_RAW };
enum { ELEMENTS_FLOAT = 1 };
enum { VALUE_NAME = 1, VALUE_TYPE };
enum { TYPE_TENSOR = 1, TENSOR_TYPE_ELEMENTS = 1, TENSOR_TYPE_SHAPE };
enum { SHAPE_DIMS = 1, DIM_VALUE = 1, DIM_NAME };

/* The first failure sticks: later calls do nothing. */
typedef struct writer {
    const ff_model *model;
    const ff_graph *graph;
    ff_buffer out;  /* the GraphProto */
    ff_buffer node; /* being written */
    int *value;     /* [layers] the layer with its value: views and dropout pass their input on */
    bool has[FF_ACTIVATION_GELU + 1]; /* constants that are already written, by activation */
    ff_status status;
    ff_error *error;
} writer;

#define PUT(call)                                                                                  \
    do {                                                                                           \
        if (w->status == FF_OK) w->status = (call);                                                \
    } while (0)

/* ---- nodes ---- */

static void value_name(const writer *w, ff_node node, char name[NAME]) {
    const ff_node of = w->value[node];
    if (of == 0)
        snprintf(name, NAME, "images");
    else if (of == w->graph->output)
        snprintf(name, NAME, "logits");
    else
        snprintf(name, NAME, "%s:%d", w->graph->layers[of].name, of);
}

static void begin(writer *w, const char *type) {
    w->node.length = 0;
    PUT(ff_protobuf_text(&w->node, NODE_TYPE, type, w->error));
}

static void input(writer *w, const char *name) {
    PUT(ff_protobuf_text(&w->node, NODE_INPUTS, name, w->error));
}

static void input_value(writer *w, ff_node node) {
    char name[NAME];
    value_name(w, node, name);
    input(w, name);
}

static void input_parameter(writer *w, const ff_layer *layer, int k) {
    input(w, w->graph->parameters[layer->parameter + k].name);
}

static void attribute(writer *w, const char *name, unsigned type, ff_buffer *made) {
    PUT(ff_protobuf_text(made, ATTRIBUTE_NAME, name, w->error));
    PUT(ff_protobuf_number(made, ATTRIBUTE_TYPE, type, w->error));
    PUT(ff_protobuf_bytes(&w->node, NODE_ATTRIBUTES, made->bytes, made->length, w->error));
    ff_buffer_free(made);
}

static void attribute_float(writer *w, const char *name, double value) {
    ff_buffer made = {0};
    PUT(ff_protobuf_float(&made, ATTRIBUTE_F, (float)value, w->error));
    attribute(w, name, TYPE_FLOAT, &made);
}

static void attribute_int(writer *w, const char *name, int value) {
    ff_buffer made = {0};
    PUT(ff_protobuf_number(&made, ATTRIBUTE_I, (uint64_t)value, w->error));
    attribute(w, name, TYPE_INT, &made);
}

static void attribute_ints(writer *w, const char *name, const int *values, int count) {
    ff_buffer made = {0};
    for (int i = 0; i < count; i++)
        PUT(ff_protobuf_number(&made, ATTRIBUTE_INTS, (uint64_t)values[i], w->error));
    attribute(w, name, TYPE_INTS, &made);
}

/* Ends the node and names it after its only output. */
static void end(writer *w, const char *output) {
    PUT(ff_protobuf_text(&w->node, NODE_OUTPUTS, output, w->error));
    PUT(ff_protobuf_text(&w->node, NODE_NAME, output, w->error));
    PUT(ff_protobuf_bytes(&w->out, GRAPH_NODES, w->node.bytes, w->node.length, w->error));
}

static void window(writer *w, const ff_layer *layer) {
    const int pads[] = {layer->pad, layer->pad, layer->pad, layer->pad};
    attribute_ints(w, "kernel_shape", (const int[]){layer->kernel_h, layer->kernel_w}, 2);
    attribute_ints(w, "strides", (const int[]){layer->stride, layer->stride}, 2);
    attribute_ints(w, "pads", pads, 4);
}

/* ---- initializers ---- */

static void tensor(writer *w, const char *name, const int64_t *shape, int rank,
                   const float *values) {
    ff_buffer head = {0};
    uint64_t count = 1;
    for (int i = 0; i < rank; i++) {
        PUT(ff_protobuf_number(&head, TENSOR_DIMS, (uint64_t)shape[i], w->error));
        count *= (uint64_t)shape[i];
    }
    const uint64_t bytes = count * sizeof *values; /* little-endian, as the machine is */
    PUT(ff_protobuf_number(&head, TENSOR_TYPE, ELEMENTS_FLOAT, w->error));
    PUT(ff_protobuf_text(&head, TENSOR_NAME, name, w->error));
    PUT(ff_protobuf_length(&head, TENSOR_RAW, bytes, w->error));
    PUT(ff_protobuf_length(&w->out, GRAPH_TENSORS, head.length + bytes, w->error));
    PUT(ff_buffer_add(&w->out, head.bytes, head.length, w->error));
    PUT(ff_buffer_add(&w->out, values, bytes, w->error));
    ff_buffer_free(&head);
}

static void parameters(writer *w) {
    uint64_t most = 0;
    float *values = NULL;
    for (int i = 0; i < w->graph->parameter_count; i++)
        if (ff_model_parameter(w->model, i)->count > most)
            most = ff_model_parameter(w->model, i)->count;
    PUT(ff_alloc(&values, most, sizeof *values, "the parameters", w->error));
    for (int i = 0; w->status == FF_OK && i < w->graph->parameter_count; i++) {
        const ff_parameter *p = ff_model_parameter(w->model, i);
        if (p->dtype != FF_F32) continue;
        ff_model_get(w->model, i, FF_PART_VALUE, values);
        tensor(w, p->name, p->shape, p->rank, values);
    }
    free(values);
}

static void scalar(writer *w, const char *name, float value) {
    tensor(w, name, NULL, 0, &value);
}

/* Adaptive pooling along one side as a matrix of averages, [to][from] or its transpose: window i of
 * n covers floor(i s / n) up to ceil((i + 1) s / n), as in torch. */
static void adaptive_matrix(writer *w, const char *name, int from, int to, bool transposed) {
    float *values = NULL;
    const uint64_t count = (uint64_t)from * (uint64_t)to;
    PUT(ff_alloc(&values, count, sizeof *values, "a pooling", w->error));
    for (int i = 0; values && i < to; i++) {
        const int first = (int)((int64_t)i * from / to);
        const int last = (int)(((int64_t)(i + 1) * from + to - 1) / to);
        for (int k = first; k < last; k++)
            values[transposed ? k * to + i : i * from + k] = 1.0f / (float)(last - first);
    }
    const int64_t shape[] = {transposed ? from : to, transposed ? to : from};
    if (values) tensor(w, name, shape, 2, values);
    free(values);
}

/* ---- layers ---- */

static void adaptive_pool(writer *w, ff_node node, const char *output) {
    const ff_layer *layer = &w->graph->layers[node], *from = &w->graph->layers[layer->from];
    char rows[NAME], columns[NAME], middle[NAME];
    snprintf(rows, NAME, "%s.rows", layer->name);
    snprintf(columns, NAME, "%s.columns", layer->name);
    snprintf(middle, NAME, "%s.middle", layer->name);
    adaptive_matrix(w, columns, from->w, layer->w, true);
    adaptive_matrix(w, rows, from->h, layer->h, false);
    begin(w, "MatMul");
    input_value(w, layer->from);
    input(w, columns);
    end(w, middle);
    begin(w, "MatMul");
    input(w, rows);
    input(w, middle);
    end(w, output);
}

/* A node with one or two inputs. */
static void step(writer *w, const char *type, const char *a, const char *b, const char *output) {
    begin(w, type);
    input(w, a);
    if (b) input(w, b);
    end(w, output);
}

/* Adds an activation's constants the first time that the activation is written. */
static void constants(writer *w, ff_activation kind) {
    if (w->has[kind]) return;
    w->has[kind] = true;
    if (kind == FF_ACTIVATION_RELU6) {
        scalar(w, "relu6.least", 0);
        scalar(w, "relu6.most", 6);
    } else if (kind == FF_ACTIVATION_GELU) {
        scalar(w, "gelu.sqrt2", 1.41421356237f);
        scalar(w, "gelu.one", 1);
        scalar(w, "gelu.half", 0.5f);
    }
}

/* x * (1 + erf(x / sqrt(2))) / 2 */
static void gelu(writer *w, ff_node node, const char *x, const char *output) {
    char parts[4][NAME];
    for (int i = 0; i < 4; i++) snprintf(parts[i], NAME, "gelu:%d.%d", node, i);
    step(w, "Div", x, "gelu.sqrt2", parts[0]);
    step(w, "Erf", parts[0], NULL, parts[1]);
    step(w, "Add", parts[1], "gelu.one", parts[2]);
    step(w, "Mul", x, parts[2], parts[3]);
    step(w, "Mul", parts[3], "gelu.half", output);
}

static void activation(writer *w, ff_node node, const char *output) {
    const ff_layer *layer = &w->graph->layers[node];
    char x[NAME];
    value_name(w, layer->from, x);
    constants(w, layer->activation);
    switch (layer->activation) {
    case FF_ACTIVATION_GELU: gelu(w, node, x, output); break;
    case FF_ACTIVATION_RELU: step(w, "Relu", x, NULL, output); break;
    case FF_ACTIVATION_RELU6:
        begin(w, "Clip");
        input(w, x);
        input(w, "relu6.least");
        input(w, "relu6.most");
        end(w, output);
        break;
    case FF_ACTIVATION_NONE: assert(false);
    }
}

/* The mean over all pixels, or over adaptive windows. */
static void average_pool(writer *w, ff_node node, const char *output) {
    const ff_layer *layer = &w->graph->layers[node];
    if (layer->h != 1 || layer->w != 1) {
        adaptive_pool(w, node, output);
        return;
    }
    begin(w, "GlobalAveragePool");
    input_value(w, layer->from);
    end(w, output);
}

static void layer(writer *w, ff_node node) {
    const ff_layer *at = &w->graph->layers[node];
    char output[NAME];
    w->value[node] = at->kind == FF_LAYER_DROPOUT ? w->value[at->from] : node;
    value_name(w, node, output);
    switch (at->kind) {
    case FF_LAYER_INPUT:
    case FF_LAYER_DROPOUT:
    case FF_LAYER_KINDS: return;
    case FF_LAYER_ACTIVATION: activation(w, node, output); return;
    case FF_LAYER_AVERAGE_POOL: average_pool(w, node, output); return;
    case FF_LAYER_CONV:
        begin(w, "Conv");
        input_value(w, at->from);
        for (int k = 0; k < (at->bias ? 2 : 1); k++) input_parameter(w, at, k);
        window(w, at);
        attribute_int(w, "group", at->groups);
        break;
    case FF_LAYER_NORM:
        begin(w, "BatchNormalization");
        input_value(w, at->from);
        for (int k = 0; k < 4; k++) input_parameter(w, at, k); /* in torch's order */
        attribute_float(w, "epsilon", at->epsilon);
        break;
    case FF_LAYER_MAX_POOL:
        begin(w, "MaxPool");
        input_value(w, at->from);
        window(w, at);
        break;
    case FF_LAYER_LINEAR:
        begin(w, "Gemm");
        input_value(w, at->from);
        for (int k = 0; k < (at->bias ? 2 : 1); k++) input_parameter(w, at, k);
        attribute_float(w, "alpha", at->scale);
        attribute_int(w, "transB", 1);
        break;
    case FF_LAYER_ADD:
        begin(w, "Add");
        input_value(w, at->from);
        input_value(w, at->from2);
        break;
    case FF_LAYER_FLATTEN:
        begin(w, "Flatten");
        input_value(w, at->from);
        break;
    }
    end(w, output);
}

/* ---- the file ---- */

/* dims: without the batch's. */
static void value_info(writer *w, unsigned field, const char *name, const int *dims, int count) {
    ff_buffer dim = {0}, shape = {0}, type = {0}, info = {0};
    PUT(ff_protobuf_text(&dim, DIM_NAME, "N", w->error));
    for (int i = 0; i <= count; i++) {
        PUT(ff_protobuf_bytes(&shape, SHAPE_DIMS, dim.bytes, dim.length, w->error));
        dim.length = 0;
        if (i < count) PUT(ff_protobuf_number(&dim, DIM_VALUE, (uint64_t)dims[i], w->error));
    }
    PUT(ff_protobuf_number(&type, TENSOR_TYPE_ELEMENTS, ELEMENTS_FLOAT, w->error));
    PUT(ff_protobuf_bytes(&type, TENSOR_TYPE_SHAPE, shape.bytes, shape.length, w->error));
    PUT(ff_protobuf_text(&info, VALUE_NAME, name, w->error));
    shape.length = 0;
    PUT(ff_protobuf_bytes(&shape, TYPE_TENSOR, type.bytes, type.length, w->error));
    PUT(ff_protobuf_bytes(&info, VALUE_TYPE, shape.bytes, shape.length, w->error));
    PUT(ff_protobuf_bytes(&w->out, field, info.bytes, info.length, w->error));
    ff_buffer_free(&dim);
    ff_buffer_free(&shape);
    ff_buffer_free(&type);
    ff_buffer_free(&info);
}

static void graph(writer *w) {
    const ff_layer *images = &w->graph->layers[0], *logits = &w->graph->layers[w->graph->output];
    PUT(ff_protobuf_text(&w->out, GRAPH_NAME, "net", w->error));
    value_info(w, GRAPH_INPUTS, "images", (const int[]){images->c, images->h, images->w}, 3);
    value_info(w, GRAPH_OUTPUTS, "logits", (const int[]){logits->c}, 1);
    parameters(w);
    for (int i = 0; i < w->graph->layer_count; i++) layer(w, i);
}

static void model(writer *w, const ff_safetensors_fact *facts, size_t fact_count, ff_buffer *out) {
    ff_buffer part = {0};
    PUT(ff_protobuf_number(out, MODEL_IR_VERSION, IR_VERSION, w->error));
    PUT(ff_protobuf_text(out, MODEL_PRODUCER, "ffpack", w->error));
    PUT(ff_protobuf_text(out, MODEL_PRODUCER_VERSION, ff_version, w->error));
    PUT(ff_protobuf_number(&part, OPSET_VERSION, OPSET, w->error));
    PUT(ff_protobuf_bytes(out, MODEL_OPSETS, part.bytes, part.length, w->error));
    for (size_t i = 0; i < fact_count; i++) {
        if (!facts[i].text) continue;
        part.length = 0;
        PUT(ff_protobuf_text(&part, PROPERTY_KEY, facts[i].key, w->error));
        PUT(ff_protobuf_text(&part, PROPERTY_VALUE, facts[i].text, w->error));
        PUT(ff_protobuf_bytes(out, MODEL_PROPERTIES, part.bytes, part.length, w->error));
    }
    PUT(ff_protobuf_length(out, MODEL_GRAPH, w->out.length, w->error));
    ff_buffer_free(&part);
}

ff_status ff_onnx_write(struct ff_file *file, ff_model *of, const ff_safetensors_fact *facts,
                        size_t fact_count, ff_error *error) {
    writer own = {.model = of, .graph = ff_model_training_plan(of)->graph, .error = error},
           *w = &own;
    ff_buffer head = {0};
    PUT(ff_alloc(&w->value, (uint64_t)w->graph->layer_count, sizeof *w->value, "the layers",
                 error));
    if (w->status == FF_OK) graph(w);
    PUT(ff_model_check(of, error));
    model(w, facts, fact_count, &head);
    if (w->status == FF_OK && head.length + w->out.length > INT32_MAX)
        w->status = ff_fail(error, FF_USAGE, "an ONNX file has at most 2 GiB; this net needs more");
    PUT(ff_file_write(file, head.bytes, head.length, error));
    PUT(ff_file_write(file, w->out.bytes, w->out.length, error));
    ff_buffer_free(&head);
    ff_buffer_free(&w->out);
    ff_buffer_free(&w->node);
    free(w->value);
    return w->status;
}
