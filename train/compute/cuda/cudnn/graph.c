#include "train/compute/cuda/cudnn/graph.h"

#include <cudnn.h>

#include <stdio.h>
#include <string.h>

/* A graph being built. */
typedef struct builder {
    ff_cudnn_graph *graph;
    ff_cudnn_builder *parts;
    const ff_library_conv_spec *spec;
    cudnnDataType_t type; /* of stored activations */
    ff_cudnn_descriptor operations[8];
    int operation_count;
    int64_t next_virtual; /* ids of tensors that are not in memory */
} builder;

typedef struct extents {
    int64_t n, c, h, w;
} extents;

static cudnnDataType_t type_of(ff_precision precision) {
    switch (ff_precision_dtype(precision)) {
    case FF_F16: return CUDNN_DATA_HALF;
    case FF_BF16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
    }
}

/* Channels-last, packed; dimensions are in cuDNN's order N C H W. */
static ff_cudnn_descriptor tensor(builder *b, int64_t id, cudnnDataType_t type, extents e,
                                  bool is_virtual) {
    ff_cudnn_descriptor t = ff_cudnn_make(b->parts, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t dimensions[4] = {e.n, e.c, e.h, e.w};
    int64_t strides[4] = {e.c * e.h * e.w, 1, e.c * e.w, e.c};
    ff_cudnn_set_int64(b->parts, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    ff_cudnn_set(b->parts, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    ff_cudnn_set(b->parts, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dimensions);
    ff_cudnn_set(b->parts, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    ff_cudnn_set_int64(b->parts, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
    ff_cudnn_set(b->parts, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    ff_cudnn_finish(b->parts, t, "a tensor");
    return t;
}

static ff_cudnn_descriptor virtual_tensor(builder *b, cudnnDataType_t type, extents e) {
    return tensor(b, 1000 + b->next_virtual++, type, e, true);
}

/* A tensor in memory, identified by the offset of its pointer in the arguments. */
static ff_cudnn_descriptor argument(builder *b, size_t offset, cudnnDataType_t type, extents e) {
    int64_t id = 1 + (int64_t)offset;
    b->graph->ids[b->graph->id_count++] = id;
    return tensor(b, id, type, e, false);
}
#define ARGUMENT(b, field, type, extents)                                                          \
    argument(b, offsetof(ff_library_conv_arguments, field), type, extents)

static ff_cudnn_descriptor channels(builder *b, size_t offset, cudnnDataType_t type, int64_t c) {
    return argument(b, offset, type, (extents){1, c, 1, 1});
}
#define CHANNELS(b, field, type, c) channels(b, offsetof(ff_library_conv_arguments, field), type, c)

/* The graph lists operations in the order of these calls. */
static ff_cudnn_descriptor operation(builder *b, cudnnBackendDescriptorType_t type) {
    ff_cudnn_descriptor made = ff_cudnn_make(b->parts, type);
    b->operations[b->operation_count++] = made;
    return made;
}

/* ---- operations ---- */

static void convolution(builder *b, ff_cudnn_descriptor x, ff_cudnn_descriptor w,
                        ff_cudnn_descriptor y) {
    static const struct {
        cudnnBackendDescriptorType_t type;
        cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
        const char *what;
    } passes[] = {
        [FF_PASS_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                             "a convolution's forward pass"},
        [FF_PASS_BACKWARD_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                                   "a convolution's backward data pass"},
        [FF_PASS_BACKWARD_WEIGHTS] =
            {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
             "a convolution's backward weights pass"},
    };
    const ff_library_conv_spec *s = b->spec;
    ff_cudnn_descriptor c = ff_cudnn_make(b->parts, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t pad[2] = {s->pad, s->pad}, stride[2] = {s->stride, s->stride}, dilation[2] = {1, 1};
    ff_cudnn_set(b->parts, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    ff_cudnn_set(b->parts, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
                 &mode);
    ff_cudnn_set_int64(b->parts, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
    ff_cudnn_set(b->parts, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    ff_cudnn_set(b->parts, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    ff_cudnn_set(b->parts, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    ff_cudnn_set(b->parts, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
    ff_cudnn_finish(b->parts, c, "a convolution");

    float alpha = 1, beta = 0;
    ff_cudnn_descriptor o = operation(b, passes[s->pass].type);
    ff_cudnn_set_descriptor(b->parts, o, passes[s->pass].x, x);
    ff_cudnn_set_descriptor(b->parts, o, passes[s->pass].w, w);
    ff_cudnn_set_descriptor(b->parts, o, passes[s->pass].y, y);
    ff_cudnn_set_descriptor(b->parts, o, passes[s->pass].convolution, c);
    ff_cudnn_set(b->parts, o, passes[s->pass].alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    ff_cudnn_set(b->parts, o, passes[s->pass].beta, CUDNN_TYPE_FLOAT, 1, &beta);
    ff_cudnn_finish(b->parts, o, passes[s->pass].what);
}

static ff_cudnn_descriptor pointwise(builder *b, cudnnPointwiseMode_t mode) {
    ff_cudnn_descriptor p = ff_cudnn_make(b->parts, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnDataType_t math = CUDNN_DATA_FLOAT;
    ff_cudnn_set(b->parts, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    ff_cudnn_set(b->parts, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math);
    ff_cudnn_finish(b->parts, p, "a pointwise operation");
    ff_cudnn_descriptor o = operation(b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    ff_cudnn_set_descriptor(b->parts, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
    return o;
}

/* y = mode(x), or mode(x, other) if other is not NULL. */
static void map(builder *b, cudnnPointwiseMode_t mode, ff_cudnn_descriptor x,
                ff_cudnn_descriptor other, ff_cudnn_descriptor y) {
    ff_cudnn_descriptor o = pointwise(b, mode);
    ff_cudnn_set_descriptor(b->parts, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (other) ff_cudnn_set_descriptor(b->parts, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, other);
    ff_cudnn_set_descriptor(b->parts, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    ff_cudnn_finish(b->parts, o, "a pointwise operation");
}

/* dx = x > 0 ? dy : 0. */
static void relu_backward(builder *b, ff_cudnn_descriptor x, ff_cudnn_descriptor dy,
                          ff_cudnn_descriptor dx) {
    ff_cudnn_descriptor o = pointwise(b, CUDNN_POINTWISE_RELU_BWD);
    ff_cudnn_set_descriptor(b->parts, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    ff_cudnn_set_descriptor(b->parts, o, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx);
    ff_cudnn_set_descriptor(b->parts, o, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dy);
    ff_cudnn_finish(b->parts, o, "a ReLU's backward pass");
}

static void statistics(builder *b, ff_cudnn_descriptor y) {
    cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    cudnnDataType_t math = CUDNN_DATA_FLOAT;
    ff_cudnn_descriptor sum = CHANNELS(b, sum, math, b->spec->k);
    ff_cudnn_descriptor squares = CHANNELS(b, square_sum, math, b->spec->k);
    ff_cudnn_descriptor o = operation(b, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    ff_cudnn_set(b->parts, o, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1,
                 &mode);
    ff_cudnn_set(b->parts, o, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
                 &math);
    ff_cudnn_set_descriptor(b->parts, o, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y);
    ff_cudnn_set_descriptor(b->parts, o, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
    ff_cudnn_set_descriptor(b->parts, o, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares);
    ff_cudnn_finish(b->parts, o, "the statistics of a convolution");
}

/* ---- graphs ---- */

static ff_cudnn_descriptor prologue(builder *b, ff_cudnn_descriptor x, extents e) {
    if (b->spec->prologue == FF_PROLOGUE_NONE) return x;
    ff_cudnn_descriptor scale = CHANNELS(b, scale, b->type, e.c);
    ff_cudnn_descriptor shift = CHANNELS(b, shift, b->type, e.c);
    ff_cudnn_descriptor scaled = virtual_tensor(b, CUDNN_DATA_FLOAT, e);
    ff_cudnn_descriptor shifted = virtual_tensor(b, CUDNN_DATA_FLOAT, e);
    ff_cudnn_descriptor rectified = virtual_tensor(b, b->type, e);
    map(b, CUDNN_POINTWISE_MUL, x, scale, scaled);
    map(b, CUDNN_POINTWISE_ADD, scaled, shift, shifted);
    map(b, CUDNN_POINTWISE_RELU_FWD, shifted, NULL, rectified);
    return rectified;
}

static void forward(builder *b, ff_cudnn_descriptor x, ff_cudnn_descriptor w, extents e) {
    ff_library_epilogue epilogue = b->spec->epilogue;
    ff_cudnn_descriptor y = ARGUMENT(b, y, b->type, e);
    if (epilogue == FF_EPILOGUE_NONE || epilogue == FF_EPILOGUE_STATISTICS) {
        convolution(b, x, w, y);
        if (epilogue == FF_EPILOGUE_STATISTICS) statistics(b, y);
        return;
    }
    bool active = epilogue != FF_EPILOGUE_BIAS;
    ff_cudnn_descriptor sums = virtual_tensor(b, CUDNN_DATA_FLOAT, e);
    ff_cudnn_descriptor biased = active ? virtual_tensor(b, CUDNN_DATA_FLOAT, e) : y;
    ff_cudnn_descriptor bias = CHANNELS(b, bias, b->type, e.c);
    convolution(b, x, w, sums);
    map(b, CUDNN_POINTWISE_ADD, sums, bias, biased);
    if (active)
        map(b,
            epilogue == FF_EPILOGUE_BIAS_RELU ? CUDNN_POINTWISE_RELU_FWD : CUDNN_POINTWISE_GELU_FWD,
            biased, NULL, y);
}

static void norm_weights_backward(builder *b, ff_cudnn_descriptor norm_x, ff_cudnn_descriptor g,
                                  ff_cudnn_descriptor mean, ff_cudnn_descriptor inv_std,
                                  ff_cudnn_descriptor gamma) {
    int64_t c = b->spec->c;
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    struct {
        cudnnBackendAttributeName_t attribute;
        ff_cudnn_descriptor value;
    } parts[] = {
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, mean},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, inv_std},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, gamma},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, norm_x},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, g},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, CHANNELS(b, dgamma, f32, c)},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, CHANNELS(b, dbeta, f32, c)},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, CHANNELS(b, gradient_scale, f32, c)},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, CHANNELS(b, input_scale, f32, c)},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, CHANNELS(b, offset, f32, c)},
    };
    ff_cudnn_descriptor o = operation(b, CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR);
    ff_cudnn_set(b->parts, o, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                 1, &f32);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ff_cudnn_set_descriptor(b->parts, o, parts[i].attribute, parts[i].value);
    ff_cudnn_finish(b->parts, o, "a batch norm's backward pass");
}

static void backward_data(builder *b, ff_cudnn_descriptor w, ff_cudnn_descriptor dy, extents e) {
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    ff_cudnn_descriptor x = ARGUMENT(b, x, b->type, e);
    if (b->spec->epilogue == FF_EPILOGUE_NONE) {
        convolution(b, x, w, dy);
        return;
    }
    ff_cudnn_descriptor sums = virtual_tensor(b, f32, e);
    convolution(b, sums, w, dy);
    if (b->spec->epilogue == FF_EPILOGUE_RELU_BACKWARD) {
        relu_backward(b, ARGUMENT(b, relu_y, b->type, e), sums, x);
        return;
    }
    ff_cudnn_descriptor norm_x = ARGUMENT(b, norm_x, b->type, e);
    ff_cudnn_descriptor mean = CHANNELS(b, mean, f32, e.c);
    ff_cudnn_descriptor inv_std = CHANNELS(b, inv_std, f32, e.c);
    ff_cudnn_descriptor gamma = CHANNELS(b, gamma, f32, e.c);
    ff_cudnn_descriptor beta = CHANNELS(b, beta, f32, e.c);
    ff_cudnn_descriptor centred = virtual_tensor(b, f32, e), xhat = virtual_tensor(b, f32, e);
    ff_cudnn_descriptor scaled = virtual_tensor(b, f32, e), norm_y = virtual_tensor(b, f32, e);
    map(b, CUDNN_POINTWISE_SUB, norm_x, mean, centred);
    map(b, CUDNN_POINTWISE_MUL, centred, inv_std, xhat);
    map(b, CUDNN_POINTWISE_MUL, xhat, gamma, scaled);
    map(b, CUDNN_POINTWISE_ADD, scaled, beta, norm_y);
    relu_backward(b, norm_y, sums, x);
    norm_weights_backward(b, norm_x, x, mean, inv_std, gamma);
}

static void backward_weights(builder *b, ff_cudnn_descriptor x, ff_cudnn_descriptor dy, extents e) {
    if (!b->spec->f32_gradient) {
        convolution(b, x, ARGUMENT(b, w, b->type, e), dy);
        return;
    }
    ff_cudnn_descriptor sums = virtual_tensor(b, CUDNN_DATA_FLOAT, e);
    convolution(b, x, sums, dy);
    map(b, CUDNN_POINTWISE_IDENTITY, sums, NULL, ARGUMENT(b, w, CUDNN_DATA_FLOAT, e));
}

ff_status ff_cudnn_graph_create(ff_cudnn_graph *graph, void *handle,
                                const ff_library_conv_spec *spec, ff_error *error) {
    *graph = (ff_cudnn_graph){0};
    builder b = {
        .graph = graph, .parts = &graph->parts, .spec = spec, .type = type_of(spec->precision)};
    extents x = {spec->n, spec->c, spec->h, spec->w};
    extents w = {spec->k, spec->c / spec->groups, spec->kernel,
                 spec->kernel}; /* implies the groups */
    extents y = {spec->n, spec->k, ff_library_conv_out(spec, spec->h),
                 ff_library_conv_out(spec, spec->w)};
    switch (spec->pass) {
    case FF_PASS_FORWARD: {
        ff_cudnn_descriptor read = prologue(&b, ARGUMENT(&b, x, b.type, x), x);
        forward(&b, read, ARGUMENT(&b, w, b.type, w), y);
        break;
    }
    case FF_PASS_BACKWARD_DATA:
        backward_data(&b, ARGUMENT(&b, w, b.type, w), ARGUMENT(&b, y, b.type, y), x);
        break;
    case FF_PASS_BACKWARD_WEIGHTS: {
        ff_cudnn_descriptor read = prologue(&b, ARGUMENT(&b, x, b.type, x), x);
        backward_weights(&b, read, ARGUMENT(&b, y, b.type, y), w);
        break;
    }
    }
    graph->graph = ff_cudnn_make(b.parts, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    ff_cudnn_set(b.parts, graph->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                 CUDNN_TYPE_BACKEND_DESCRIPTOR, b.operation_count, b.operations);
    if (handle)
        ff_cudnn_set(b.parts, graph->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                     &handle);
    ff_cudnn_finish(b.parts, graph->graph, "an operation graph");
    ff_status status = ff_cudnn_result(b.parts, error);
    if (status != FF_OK) ff_cudnn_graph_destroy(graph);
    return status;
}

void ff_cudnn_graph_destroy(ff_cudnn_graph *graph) {
    ff_cudnn_release(&graph->parts);
    graph->graph = NULL;
}

void ff_cudnn_graph_pointers(const ff_cudnn_graph *graph,
                             const ff_library_conv_arguments *arguments,
                             void *pointers[FF_CUDNN_TENSORS]) {
    for (int i = 0; i < graph->id_count; i++)
        memcpy(&pointers[i], (const char *)arguments + (graph->ids[i] - 1), sizeof *pointers);
}
