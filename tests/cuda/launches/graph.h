/* An operation graph as it was described to cuDNN, and the plain loops that compute it: what each
 * operation is, is from cuDNN's documentation ("Backend API", "Backend Descriptor Types"). */
#ifndef FF_TESTS_LAUNCHES_GRAPH_H
#define FF_TESTS_LAUNCHES_GRAPH_H

#include <cudnn.h>
#include <stdbool.h>
#include <stdint.h>

enum { FF_GRAPH_TENSORS = 32, FF_GRAPH_OPERATIONS = 8, FF_OPERATION_TENSORS = 10 };

typedef struct ff_graph_tensor {
    int64_t id, alignment;
    int64_t size[4], step[4]; /* n c h w; filters k c r s */
    cudnnDataType_t type;
    bool is_virtual, written;
    void *at; /* in a run */
} ff_graph_tensor;

typedef struct ff_graph_operation {
    cudnnBackendDescriptorType_t type;
    int tensors[FF_OPERATION_TENSORS]; /* places in the graph's list; -1 = none. Convolutions x, w,
                                          y; pointwise x, b, y, dx, dy; statistics x, sum, squares;
                                          a norm's as in cudnn_graph.h */
    cudnnPointwiseMode_t mode;
    int64_t pad[2], stride[2], dilation[2];
    float alpha, beta;
} ff_graph_operation;

typedef struct ff_graph_shape {
    ff_graph_tensor tensors[FF_GRAPH_TENSORS];
    ff_graph_operation operations[FF_GRAPH_OPERATIONS];
    int tensor_count, operation_count;
} ff_graph_shape;

/* From the first to past the last byte. */
uint64_t ff_graph_bytes(const ff_graph_tensor *tensor);

/* Computes the graph; tensors that are not virtual have their place. `graph` is an ff_graph_shape.
 */
void ff_graph_compute(void *graph);

#endif
