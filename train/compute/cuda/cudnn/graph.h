/* Operation graphs of cuDNN for the convolutions of library.h.
 * Thread rule: one thread. */
#ifndef FF_TRAIN_CUDA_CUDNN_GRAPH_H
#define FF_TRAIN_CUDA_CUDNN_GRAPH_H

#include "train/compute/cuda/cudnn/descriptor.h"
#include "train/compute/cuda/library.h"

/* The most tensors of a graph that are in memory. */
enum { FF_CUDNN_TENSORS = 16 };

typedef struct ff_cudnn_graph {
    ff_cudnn_descriptor graph;
    ff_cudnn_builder parts; /* owns the graph and its parts */
    /* cuDNN's ids of tensors in memory. An id is 1 + the offset of the tensor's pointer in
     * ff_library_conv_arguments. */
    int64_t ids[FF_CUDNN_TENSORS];
    int id_count;
} ff_cudnn_graph;

/* handle: a cudnnHandle_t, or NULL if plans are made without a GPU. On failure there is nothing to
 * destroy. FF_FAILED: cuDNN refuses the graph. */
FF_MUST_USE ff_status ff_cudnn_graph_create(ff_cudnn_graph *graph, void *handle,
                                            const ff_library_conv_spec *spec, ff_error *error);
void ff_cudnn_graph_destroy(ff_cudnn_graph *graph);

/* pointers[i] = the argument with ids[i]. */
void ff_cudnn_graph_pointers(const ff_cudnn_graph *graph,
                             const ff_library_conv_arguments *arguments,
                             void *pointers[FF_CUDNN_TENSORS]);

#endif
