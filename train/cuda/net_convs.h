/* The convolutions that training a net needs of the library, from its graph: for the dry run, and
 * for the coverage table. Plain passes: which fused ones take their place is the compute's choice.
 * Thread rule: pure. */
#ifndef FF_TRAIN_CUDA_NET_CONVS_H
#define FF_TRAIN_CUDA_NET_CONVS_H

#include "train/cuda/library.h"
#include "train/graph.h"

typedef struct ff_net_conv {
    ff_node layer; /* the first of those that are alike */
    int layers;    /* how many are alike */
    ff_library_conv_spec spec;
} ff_net_conv;

/* Forward; backward data where anything before the layer is trained; backward weights where its
 * filters are. Channels are padded to a multiple of 8, those of images to `image_channels` where
 * that is more than they are. Each spec once, in the order of the layers; the caller frees *convs.
 */
FF_MUST_USE ff_status ff_net_convs(const ff_graph *graph, int batch, ff_precision precision,
                                   int image_channels, ff_net_conv **convs, int *count,
                                   ff_error *error);

#endif
