/* The operation graph of a plan, as cuDNN's own text of the plan describes it, and the plain loops
 * that compute it: each operation by cuDNN's documentation ("Backend API", "Backend Descriptor
 * Types"). */
#ifndef FF_TESTS_LAUNCHES_GRAPH_H
#define FF_TESTS_LAUNCHES_GRAPH_H

#include "format/disk/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { FF_GRAPH_TENSORS = 32, FF_GRAPH_NODES = 8, FF_NODE_TENSORS = 10 };

typedef struct ff_graph_tensor {
    int64_t id, alignment;
    int64_t size[4], step[4]; /* n c h w; filters k c r s */
    ff_dtype dtype;
    bool is_virtual, written;
    void *at; /* in a run */
} ff_graph_tensor;

typedef struct ff_graph_node {
    const struct ff_node_kind *kind;
    int tensors[FF_NODE_TENSORS]; /* places in the graph's list; -1 = none */
    double (*point)(double x, double b, double dy);
    int64_t pad[2], stride[2], dilation[2];
} ff_graph_node;

typedef struct ff_graph_shape {
    ff_graph_tensor tensors[FF_GRAPH_TENSORS];
    ff_graph_node nodes[FF_GRAPH_NODES];
    int tensor_count, node_count;
} ff_graph_shape;

/* Reads a plan's text (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION). NULL: it has something that
 * is not known here. The caller frees it. */
ff_graph_shape *ff_graph_read(const char *json);

/* From the first to past the last byte. */
uint64_t ff_graph_bytes(const ff_graph_tensor *tensor);

/* Computes the graph, an ff_graph_shape; tensors that are not virtual have their place. */
void ff_graph_compute(void *graph);
/* Only writes zeros. */
void ff_graph_clear(void *graph);

#endif
