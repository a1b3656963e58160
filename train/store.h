/* The parameters of a model: one block of memory per role, every parameter at its offset in the
 * order in which its layer holds it; copies in and out are in torch's order. */
#ifndef FF_TRAIN_STORE_H
#define FF_TRAIN_STORE_H

#include "train/compute.h"
#include "train/graph.h"

typedef struct ff_store {
    const ff_graph *graph;
    /* [trained_count]: values, their gradients and the optimizer's state, one order.
     *   | conv1.weight | bn1.weight | bn1.bias | layer1.0.conv1.weight | ... | fc.bias |
     * each begins on 64 bytes; what lies between is zero and stays zero. */
    float *values, *gradients, *momentum;
    size_t trained_count;
    float *buffers; /* [buffer_count]: running means and variances, likewise */
    size_t buffer_count;
    int64_t *tracked; /* [parameters]: num_batches_tracked where the parameter is one */
    size_t *offsets;  /* [parameters]: in floats, into the block of its role */
    /* How layers hold their weights, by layer; the plan that was made first owns them. */
    ff_conv *const *convs;
    const ff_tensor *tensors;
} ff_store;

/* Room for the parameters of a graph whose layers were planned: `convs[layer]` of convolutions,
 * `tensors[layer]` = the layer's output. Both outlive the store. Values are zero, running variances
 * too. On failure *store holds nothing. */
FF_MUST_USE ff_status ff_store_create(ff_store *store, const ff_graph *graph, ff_conv *const *convs,
                                      const ff_tensor *tensors, ff_error *error);
void ff_store_destroy(ff_store *store);

/* Draws the initial values: element e of parameter p from
 * ff_philox_draw(seed, FF_DOMAIN_INIT, p, e, 0). */
FF_MUST_USE ff_status ff_store_initialise(ff_store *store, const ff_compute *compute, uint64_t seed,
                                          ff_error *error);

/* Between torch's order and a block of the store (`values`, `gradients`, `momentum`, or `buffers`
 * for running statistics). f32 parameters only. */
void ff_store_export(const ff_store *store, const ff_compute *compute, int parameter,
                     const float *block, float *to);
void ff_store_import(const ff_store *store, const ff_compute *compute, int parameter, float *block,
                     const float *from);

/* The block that holds a parameter's value. */
float *ff_store_block(const ff_store *store, int parameter);

#endif
