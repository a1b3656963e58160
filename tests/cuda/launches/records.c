#include "tests/cuda/launches/records.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static ff_record *all; /* the newest first */

ff_record *ff_record_add(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type) {
    ff_record *record = calloc(1, sizeof *record);
    if (!record) abort();
    record->descriptor = descriptor;
    record->type = type;
    pthread_mutex_lock(&mutex);
    record->next = all;
    all = record;
    pthread_mutex_unlock(&mutex);
    return record;
}

ff_record *ff_record_find(cudnnBackendDescriptor_t descriptor) {
    pthread_mutex_lock(&mutex);
    ff_record *record = all;
    while (record && record->descriptor != descriptor) record = record->next;
    pthread_mutex_unlock(&mutex);
    return record;
}

void ff_record_remove(cudnnBackendDescriptor_t descriptor) {
    ff_record *found = NULL;
    pthread_mutex_lock(&mutex);
    for (ff_record **link = &all; *link; link = &(*link)->next) {
        if ((*link)->descriptor != descriptor) continue;
        found = *link;
        *link = found->next;
        break;
    }
    pthread_mutex_unlock(&mutex);
    if (!found) return;
    for (ff_record_value *value = found->values, *next; value; value = next) {
        next = value->next;
        free(value);
    }
    if (found->owns_graph) free(found->graph);
    free(found);
}

static size_t size_of(cudnnBackendAttributeType_t type) {
    switch (type) {
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4; /* floats and enumerations */
    }
}

void ff_record_set(ff_record *record, int attribute, cudnnBackendAttributeType_t type,
                   int64_t count, const void *data) {
    const size_t bytes = (size_t)count * size_of(type);
    ff_record_value *value = malloc(sizeof *value + bytes);
    if (!value) abort();
    *value = (ff_record_value){record->values, attribute, count, bytes};
    memcpy(value->data, data, bytes);
    record->values = value;
}

const ff_record_value *ff_record_get(const ff_record *record, int attribute) {
    const ff_record_value *value = record ? record->values : NULL;
    while (value && value->attribute != attribute) value = value->next;
    return value;
}

bool ff_record_read(const ff_record *record, int attribute, void *to, size_t bytes) {
    const ff_record_value *value = ff_record_get(record, attribute);
    memset(to, 0, bytes);
    if (!value || value->bytes != bytes) return false;
    memcpy(to, value->data, bytes);
    return true;
}

ff_record *ff_record_read_descriptor(const ff_record *record, int attribute) {
    cudnnBackendDescriptor_t descriptor;
    return ff_record_read(record, attribute, &descriptor, sizeof descriptor)
               ? ff_record_find(descriptor)
               : NULL;
}

/* ---- graphs ---- */

/* The tensor's place in the list, -1 if the operation has none. */
static int add_tensor(ff_graph_shape *graph, const ff_record *operation, int attribute,
                      bool written) {
    const ff_record *from = ff_record_read_descriptor(operation, attribute);
    ff_graph_tensor t = {.alignment = 1};
    int place = 0;
    if (!from) return -1;
    ff_record_read(from, CUDNN_ATTR_TENSOR_UNIQUE_ID, &t.id, sizeof t.id);
    ff_record_read(from, CUDNN_ATTR_TENSOR_DATA_TYPE, &t.type, sizeof t.type);
    ff_record_read(from, CUDNN_ATTR_TENSOR_DIMENSIONS, t.size, sizeof t.size);
    ff_record_read(from, CUDNN_ATTR_TENSOR_STRIDES, t.step, sizeof t.step);
    ff_record_read(from, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &t.alignment, sizeof t.alignment);
    ff_record_read(from, CUDNN_ATTR_TENSOR_IS_VIRTUAL, &t.is_virtual, sizeof t.is_virtual);
    while (place < graph->tensor_count && graph->tensors[place].id != t.id) place++;
    if (place == FF_GRAPH_TENSORS) abort(); /* more than a graph of ours has */
    if (place == graph->tensor_count) graph->tensors[graph->tensor_count++] = t;
    graph->tensors[place].written = graph->tensors[place].written || written;
    return place;
}

typedef struct form {
    cudnnBackendDescriptorType_t type;
    int tensors[FF_OPERATION_TENSORS]; /* attributes; 0 = none */
    unsigned written;                  /* one bit per tensor */
    int convolution, alpha, beta;      /* attributes */
} form;

static const form forms[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
     1 << 2,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
     1 << 0,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
     1 << 1,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_DYDESC},
     1 << 2 | 1 << 3,
     0,
     0,
     0},
    {CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_GENSTATS_XDESC, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC,
      CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC},
     1 << 1 | 1 << 2,
     0,
     0,
     0},
    {CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC,
      CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC,
      CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC,
      CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC,
      CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC,
      CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC,
      CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC,
      CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC,
      CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS},
     0x3e0,
     0,
     0,
     0},
};

static void add_operation(ff_graph_shape *graph, const ff_record *from) {
    const form *f = forms;
    while (f < forms + sizeof forms / sizeof *forms && f->type != from->type) f++;
    if (f == forms + sizeof forms / sizeof *forms || graph->operation_count == FF_GRAPH_OPERATIONS)
        abort(); /* not in a graph of ours */
    ff_graph_operation *o = &graph->operations[graph->operation_count++];
    *o = (ff_graph_operation){.type = f->type};
    for (int i = 0; i < FF_OPERATION_TENSORS; i++)
        o->tensors[i] =
            f->tensors[i] ? add_tensor(graph, from, f->tensors[i], f->written >> i & 1) : -1;
    const ff_record *point =
        ff_record_read_descriptor(from, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    ff_record_read(point, CUDNN_ATTR_POINTWISE_MODE, &o->mode, sizeof o->mode);
    const ff_record *conv = ff_record_read_descriptor(from, f->convolution);
    ff_record_read(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, o->pad, sizeof o->pad);
    ff_record_read(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, o->stride, sizeof o->stride);
    ff_record_read(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, o->dilation, sizeof o->dilation);
    ff_record_read(from, f->alpha, &o->alpha, sizeof o->alpha);
    ff_record_read(from, f->beta, &o->beta, sizeof o->beta);
}

ff_graph_shape *ff_record_shape(const ff_record *record) {
    const ff_record_value *list = ff_record_get(record, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    ff_graph_shape *graph = calloc(1, sizeof *graph);
    if (!graph) abort();
    for (int64_t i = 0; list && i < list->count; i++) {
        cudnnBackendDescriptor_t one;
        memcpy(&one, list->data + (size_t)i * sizeof one, sizeof one);
        add_operation(graph, ff_record_find(one));
    }
    return graph;
}
