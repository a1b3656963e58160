#include "tests/cuda/launches/graph.h"

#include "format/dtype.h"

#include <math.h>
#include <stdlib.h>

/* Values of a tensor in the order n c h w. */
typedef struct values {
    const ff_graph_tensor *tensor;
    double *v;
} values;

static ff_dtype dtype_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_HALF ? FF_F16 : type == CUDNN_DATA_BFLOAT16 ? FF_BF16 : FF_F32;
}

static size_t count_of(const ff_graph_tensor *t) {
    return (size_t)(t->size[0] * t->size[1] * t->size[2] * t->size[3]);
}

uint64_t ff_graph_bytes(const ff_graph_tensor *t) {
    int64_t last = 0;
    for (int i = 0; i < 4; i++) last += (t->size[i] - 1) * t->step[i];
    return (uint64_t)(last + 1) * ff_dtype_bytes(dtype_of(t->type));
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
    x->v[i++] = ff_element(t->at, dtype_of(t->type), place(t, n, c, h, w));
}

/* Rounds to the tensor's type, and writes one that is in memory. */
static void write_values(values *x) {
    const ff_graph_tensor *t = x->tensor;
    const ff_dtype dtype = dtype_of(t->type);
    const size_t bytes = ff_dtype_bytes(dtype);
    size_t i = 0;
    FOR_EACH(t, n, c, h, w) {
        const float value = (float)x->v[i];
        uint32_t stored;
        ff_convert(&stored, dtype, &value, FF_F32, 1);
        x->v[i++] = ff_element(&stored, dtype, 0);
        if (!t->is_virtual)
            ff_convert((char *)t->at + place(t, n, c, h, w) * bytes, dtype, &value, FF_F32, 1);
    }
}

/* ---- operations ---- */

/* One of x, w, y is the sum of the products of the two others. */
static void convolve(const ff_graph_operation *o, values *x, values *w, values *y) {
    const int64_t *in = x->tensor->size, *filter = w->tensor->size, *out = y->tensor->size;
    const int64_t group = out[1] / (in[1] / filter[1]); /* filters of a group */
    const cudnnBackendDescriptorType_t type = o->type;
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
                    if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
                        *at += row[i] * tap[s];
                    else if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
                        row[i] += *at * tap[s];
                    else
                        tap[s] += *at * row[i];
                }
            }
    }
}

static double point(cudnnPointwiseMode_t mode, double x, double b, double dy) {
    switch (mode) {
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_RELU_FWD: return x < 0 ? 0 : x;
    case CUDNN_POINTWISE_GELU_FWD: return x / 2 * (1 + erf(x / sqrt(2)));
    case CUDNN_POINTWISE_RELU_BWD: return x > 0 ? dy : 0;
    case CUDNN_POINTWISE_IDENTITY: return x;
    default: abort(); /* not used by the graphs */
    }
}

/* A size of 1 is repeated. */
static double repeated(const values *x, int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t *size = x->tensor->size;
    return x->v[((n % size[0] * size[1] + c % size[1]) * size[2] + h % size[2]) * size[3] +
                w % size[3]];
}

static void map(const ff_graph_operation *o, const values *x, const values *b, const values *dy,
                values *y) {
    size_t i = 0;
    FOR_EACH(y->tensor, n, c, h, w)
    y->v[i++] = point(o->mode, repeated(x, n, c, h, w), b ? repeated(b, n, c, h, w) : 0,
                      dy ? repeated(dy, n, c, h, w) : 0);
}

static void sum_up(const values *x, values *sum, values *squares) {
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
static void norm_backward(values *const t[FF_OPERATION_TENSORS]) {
    enum { MEAN, INVSTD, SCALE, X, DY, DSCALE, DBIAS, DY_SCALE, X_SCALE, OFFSET };
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

/* ---- the graph ---- */

static void operate(const ff_graph_operation *o, values *const t[FF_OPERATION_TENSORS]) {
    switch (o->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        convolve(o, t[0], t[1], t[2]);
        break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        map(o, t[0], t[1], t[4], t[2] ? t[2] : t[3]);
        break;
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR: sum_up(t[0], t[1], t[2]); break;
    default: norm_backward(t);
    }
}

void ff_graph_compute(void *context) {
    ff_graph_shape *graph = context;
    values all[FF_GRAPH_TENSORS];
    for (int i = 0; i < graph->tensor_count; i++) {
        const ff_graph_tensor *t = &graph->tensors[i];
        all[i] = (values){.tensor = t, .v = calloc(count_of(t), sizeof(double))};
        if (!all[i].v) abort();
        if (!t->is_virtual && !t->written) read_values(&all[i]);
    }
    for (int i = 0; i < graph->operation_count; i++) {
        const ff_graph_operation *o = &graph->operations[i];
        values *used[FF_OPERATION_TENSORS];
        for (int k = 0; k < FF_OPERATION_TENSORS; k++)
            used[k] = o->tensors[k] < 0 ? NULL : &all[o->tensors[k]];
        operate(o, used);
        for (int k = 0; k < FF_OPERATION_TENSORS; k++)
            if (used[k] && used[k]->tensor->written) write_values(used[k]);
    }
    for (int i = 0; i < graph->tensor_count; i++) free(all[i].v);
}
