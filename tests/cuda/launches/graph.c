#include "tests/cuda/launches/graph.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Values of a tensor in the order n c h w. */
typedef struct values {
    const ff_graph_tensor *tensor;
    double *v;
} values;

/* An operation with the keys of its tensors; `written` has a bit for each that it writes. */
typedef struct ff_node_kind {
    const char *name;
    const char *keys[FF_NODE_TENSORS];
    unsigned written;
    void (*compute)(const ff_graph_node *node, values *const tensors[FF_NODE_TENSORS]);
} node_kind;

static size_t count_of(const ff_graph_tensor *t) {
    return (size_t)(t->size[0] * t->size[1] * t->size[2] * t->size[3]);
}

uint64_t ff_graph_bytes(const ff_graph_tensor *t) {
    int64_t last = 0;
    for (int i = 0; i < 4; i++) last += (t->size[i] - 1) * t->step[i];
    return (uint64_t)(last + 1) * ff_dtype_bytes(t->dtype);
}

#define FOR_EACH(t, n, c, h, w)                                                                    \
    for (int64_t n = 0; n < (t)->size[0]; n++)                                                     \
        for (int64_t c = 0; c < (t)->size[1]; c++)                                                 \
            for (int64_t h = 0; h < (t)->size[2]; h++)                                             \
                for (int64_t w = 0; w < (t)->size[3]; w++)

static size_t place(const ff_graph_tensor *t, int64_t n, int64_t c, int64_t h, int64_t w) {
    return (size_t)(n * t->step[0] + c * t->step[1] + h * t->step[2] + w * t->step[3]);
}

static void read_values(values *x) {
    const ff_graph_tensor *t = x->tensor;
    size_t i = 0;
    FOR_EACH(t, n, c, h, w)
    x->v[i++] = ff_element(t->at, t->dtype, place(t, n, c, h, w));
}

/* Rounds to the tensor's type, and writes one that is in memory. */
static void write_values(values *x) {
    const ff_graph_tensor *t = x->tensor;
    const size_t bytes = ff_dtype_bytes(t->dtype);
    size_t i = 0;
    FOR_EACH(t, n, c, h, w) {
        const float value = (float)x->v[i];
        uint32_t stored;
        ff_convert(&stored, t->dtype, &value, FF_F32, 1);
        x->v[i++] = ff_element(&stored, t->dtype, 0);
        if (!t->is_virtual)
            ff_convert((char *)t->at + place(t, n, c, h, w) * bytes, t->dtype, &value, FF_F32, 1);
    }
}

/* ---- operations ---- */

/* One of x, w, y is the sum of the products of the two others. */
static void convolve(const ff_graph_node *o, values *const t[FF_NODE_TENSORS]) {
    values *x = t[0], *w = t[1], *y = t[2];
    const int64_t *in = x->tensor->size, *filter = w->tensor->size, *out = y->tensor->size;
    const int64_t group = out[1] / (in[1] / filter[1]); /* filters of a group */
    FOR_EACH(y->tensor, n, k, p, q) {
        double *at = &y->v[((n * out[1] + k) * out[2] + p) * out[3] + q];
        for (int64_t c = 0; c < filter[1]; c++)
            for (int64_t r = 0; r < filter[2]; r++) {
                const int64_t h = p * o->stride[0] - o->pad[0] + r * o->dilation[0];
                if (h < 0 || h >= in[2]) continue;
                double *row = &x->v[((n * in[1] + k / group * filter[1] + c) * in[2] + h) * in[3]];
                double *tap = &w->v[((k * filter[1] + c) * filter[2] + r) * filter[3]];
                for (int64_t s = 0; s < filter[3]; s++) {
                    const int64_t i = q * o->stride[1] - o->pad[1] + s * o->dilation[1];
                    if (i < 0 || i >= in[3]) continue;
                    if (o->kind->written == 1 << 2)
                        *at += row[i] * tap[s];
                    else if (o->kind->written == 1 << 0)
                        row[i] += *at * tap[s];
                    else
                        tap[s] += *at * row[i];
                }
            }
    }
}

static double add(double x, double b, double dy) {
    (void)dy;
    return x + b;
}
static double subtract(double x, double b, double dy) {
    (void)dy;
    return x - b;
}
static double multiply(double x, double b, double dy) {
    (void)dy;
    return x * b;
}
static double relu(double x, double b, double dy) {
    (void)b, (void)dy;
    return x < 0 ? 0 : x;
}
static double gelu(double x, double b, double dy) {
    (void)b, (void)dy;
    return x / 2 * (1 + erf(x / sqrt(2)));
}
static double relu_backward(double x, double b, double dy) {
    (void)b;
    return x > 0 ? dy : 0;
}
static double identity(double x, double b, double dy) {
    (void)b, (void)dy;
    return x;
}

static const struct {
    const char *name;
    double (*function)(double x, double b, double dy);
} points[] = {
    {"CUDNN_POINTWISE_ADD", add},           {"CUDNN_POINTWISE_SUB", subtract},
    {"CUDNN_POINTWISE_MUL", multiply},      {"CUDNN_POINTWISE_RELU_FWD", relu},
    {"CUDNN_POINTWISE_GELU_FWD", gelu},     {"CUDNN_POINTWISE_RELU_BWD", relu_backward},
    {"CUDNN_POINTWISE_IDENTITY", identity},
};

/* A size of 1 is repeated. */
static double repeated(const values *x, int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t *size = x->tensor->size;
    return x->v[((n % size[0] * size[1] + c % size[1]) * size[2] + h % size[2]) * size[3] +
                w % size[3]];
}

static void map(const ff_graph_node *o, values *const t[FF_NODE_TENSORS]) {
    enum { X, B, DY, Y, DX };
    const values *y = t[Y] ? t[Y] : t[DX];
    size_t i = 0;
    FOR_EACH(y->tensor, n, c, h, w)
    y->v[i++] = o->point(repeated(t[X], n, c, h, w), t[B] ? repeated(t[B], n, c, h, w) : 0,
                         t[DY] ? repeated(t[DY], n, c, h, w) : 0);
}

static void sum_up(const ff_graph_node *o, values *const t[FF_NODE_TENSORS]) {
    values *x = t[0], *sum = t[1], *squares = t[2];
    (void)o;
    const int64_t channels = x->tensor->size[1], pixels = x->tensor->size[2] * x->tensor->size[3];
    const size_t count = count_of(x->tensor);
    for (size_t i = 0; i < count; i++) {
        const int64_t c = (int64_t)i / pixels % channels;
        sum->v[c] += x->v[i];
        squares->v[c] += x->v[i] * x->v[i];
    }
}

/* The gradients of a norm's scale and bias, and the factors of the gradient of its input:
 * dx = gradient_scale dy + input_scale x + offset. */
static void norm_backward(const ff_graph_node *o, values *const t[FF_NODE_TENSORS]) {
    enum { X, DY, MEAN, SCALE, INVSTD, DSCALE, DBIAS, DY_SCALE, X_SCALE, OFFSET };
    (void)o;
    const int64_t *size = t[X]->tensor->size, pixels = size[2] * size[3];
    const size_t count = count_of(t[X]->tensor);
    for (size_t i = 0; i < count; i++) {
        const int64_t c = (int64_t)i / pixels % size[1];
        t[DBIAS]->v[c] += t[DY]->v[i];
        t[DSCALE]->v[c] += t[DY]->v[i] * (t[X]->v[i] - t[MEAN]->v[c]) * t[INVSTD]->v[c];
    }
    for (int64_t c = 0; c < size[1]; c++) {
        const double m = (double)count / (double)size[1], inv_std = t[INVSTD]->v[c];
        const double scale = t[SCALE]->v[c] * inv_std, dscale = t[DSCALE]->v[c];
        t[DY_SCALE]->v[c] = scale;
        t[X_SCALE]->v[c] = -scale * inv_std * dscale / m;
        t[OFFSET]->v[c] = scale * (t[MEAN]->v[c] * inv_std * dscale - t[DBIAS]->v[c]) / m;
    }
}

/* ---- the text ---- */

#define OPERATION(name) "CUDNN_BACKEND_OPERATION_" name "_DESCRIPTOR"
static const node_kind kinds[] = {
    {OPERATION("CONVOLUTION_FORWARD"), {"X", "W", "Y"}, 1 << 2, convolve},
    {OPERATION("CONVOLUTION_BACKWARD_DATA"), {"dX", "W", "dY"}, 1 << 0, convolve},
    {OPERATION("CONVOLUTION_BACKWARD_FILTER"), {"X", "dW", "dY"}, 1 << 1, convolve},
    {OPERATION("POINTWISE"), {"X", "B", "dY", "Y", "dX"}, 1 << 3 | 1 << 4, map},
    {OPERATION("GEN_STATS"), {"X", "Sum", "SqSum"}, 1 << 1 | 1 << 2, sum_up},
    {OPERATION("BN_BWD_WEIGHTS"),
     {"xDesc", "dyDesc", "BNmeanDesc", "BNscaleDesc", "BNinvstdDesc", "dGammaDesc", "dBetaDesc",
      "eqDyScaleDesc", "eqXScaleDesc", "eqBiasDesc"},
     0x3e0,
     norm_backward},
};

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool numbers(const json_t *object, const char *key, int64_t *to, size_t count) {
    const json_t *list = json_object_get(object, key);
    for (size_t i = 0; i < count; i++) to[i] = json_integer_value(json_array_get(list, i));
    return json_array_size(list) == count;
}

static bool read_tensor(ff_graph_tensor *t, const json_t *from) {
    const char *type = text_of(from, "dataType");
    t->id = strtoll(text_of(from, "name"), NULL, 10);
    t->alignment = json_integer_value(json_object_get(from, "ptrAlignment"));
    t->is_virtual = json_is_true(json_object_get(from, "isVirtual"));
    t->dtype = !strcmp(type, "CUDNN_DATA_HALF")       ? FF_F16
               : !strcmp(type, "CUDNN_DATA_BFLOAT16") ? FF_BF16
                                                      : FF_F32;
    return numbers(from, "dim", t->size, 4) && numbers(from, "stride", t->step, 4) &&
           t->alignment > 0 && (t->dtype != FF_F32 || !strcmp(type, "CUDNN_DATA_FLOAT"));
}

static bool read_node(ff_graph_shape *graph, ff_graph_node *node, const json_t *from) {
    const char *name = text_of(from, "operation"), *point = text_of(from, "pointwiseMode");
    bool known = true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name)) node->kind = &kinds[i];
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        if (!strcmp(points[i].name, point)) node->point = points[i].function;
    if (!node->kind) return false;
    for (int i = 0; i < FF_NODE_TENSORS; i++) {
        const char *key = node->kind->keys[i];
        const int64_t id = key ? strtoll(text_of(from, key), NULL, 10) : 0;
        node->tensors[i] = -1;
        for (int k = 0; id && k < graph->tensor_count; k++) {
            if (graph->tensors[k].id != id) continue;
            node->tensors[i] = k;
            if (node->kind->written >> i & 1) graph->tensors[k].written = true;
        }
    }
    if (node->kind->compute == map) known = node->point != NULL;
    if (node->kind->compute == convolve)
        known = numbers(from, "pad", node->pad, 2) && numbers(from, "stride", node->stride, 2) &&
                numbers(from, "dilation", node->dilation, 2) &&
                !strcmp(text_of(from, "mode"), "CUDNN_CROSS_CORRELATION") &&
                json_number_value(json_object_get(from, "alpha")) == 1 &&
                json_number_value(json_object_get(from, "beta")) == 0;
    return known && !strcmp(text_of(from, "mathPrec"), "CUDNN_DATA_FLOAT");
}

ff_graph_shape *ff_graph_read(const char *text) {
    json_t *root = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    const json_t *from = json_object_get(root, "operationGraph"), *one;
    const json_t *tensors = json_object_get(from, "tensors"),
                 *nodes = json_object_get(from, "nodes");
    ff_graph_shape *graph = calloc(1, sizeof *graph);
    bool known = graph && json_array_size(tensors) <= FF_GRAPH_TENSORS &&
                 json_array_size(nodes) <= FF_GRAPH_NODES && json_array_size(nodes) > 0;
    size_t i;
    if (known)
        json_array_foreach(tensors, i, one) known =
            known && read_tensor(&graph->tensors[graph->tensor_count++], one);
    if (known)
        json_array_foreach(nodes, i, one) known =
            known && read_node(graph, &graph->nodes[graph->node_count++], one);
    json_decref(root);
    if (known) return graph;
    free(graph);
    return NULL;
}

/* ---- the graph ---- */

void ff_graph_compute(void *context) {
    const ff_graph_shape *graph = context;
    values all[FF_GRAPH_TENSORS];
    for (int i = 0; i < graph->tensor_count; i++) {
        const ff_graph_tensor *t = &graph->tensors[i];
        all[i] = (values){.tensor = t, .v = calloc(count_of(t), sizeof(double))};
        if (!all[i].v) abort();
        if (!t->is_virtual && !t->written) read_values(&all[i]);
    }
    for (int i = 0; i < graph->node_count; i++) {
        const ff_graph_node *node = &graph->nodes[i];
        values *used[FF_NODE_TENSORS];
        for (int k = 0; k < FF_NODE_TENSORS; k++)
            used[k] = node->tensors[k] < 0 ? NULL : &all[node->tensors[k]];
        node->kind->compute(node, used);
        for (int k = 0; k < FF_NODE_TENSORS; k++)
            if (used[k] && node->kind->written >> k & 1) write_values(used[k]);
    }
    for (int i = 0; i < graph->tensor_count; i++) free(all[i].v);
}

void ff_graph_clear(void *context) {
    const ff_graph_shape *graph = context;
    for (int i = 0; i < graph->tensor_count; i++) {
        const ff_graph_tensor *t = &graph->tensors[i];
        if (t->written && !t->is_virtual) memset(t->at, 0, ff_graph_bytes(t));
    }
}
