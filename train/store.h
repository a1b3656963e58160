/* The parameters of a model, on the compute's device: one block of memory per role, every parameter
 * at its offset in the order in which its layer holds it; copies in and out are in torch's order.
 *
 * Masters, momentum and running statistics are f32. Where activations are of 16 bits, convolutions
 * and linear layers read copies of that dtype (`working`), and the gradients of weights (rank 2 and
 * up) are of it; those of per-channel parameters are f32 always. */
#ifndef FF_TRAIN_STORE_H
#define FF_TRAIN_STORE_H

#include "train/compute.h"
#include "train/graph.h"
#include "train/model.h"

typedef struct ff_groups ff_groups;

typedef struct ff_store {
    const ff_graph *graph;
    ff_compute *compute;
    /* [trained_count]: values and the optimizer's state, one order: first the weights, then the
     * per-channel parameters, both in the order in which the backward pass makes their gradients
     * (the last layer first):
     *   | fc.weight | layer4.1.conv2.weight | ... | conv1.weight | fc.bias | ... | bn1.bias |
     * each begins on 16 elements; what lies between is zero and stays zero, as are the lanes that
     * pad channels. */
    float *values, *momentum;
    void *working; /* [trained_count] of the compute's dtype; `values` itself where that is f32 */
    /* The same order: [weight_count] of the compute's dtype, then [trained_count - weight_count]
     * f32. */
    char *gradients;
    size_t weight_count, trained_count;
    float *buffers; /* [buffer_count]: running means and variances, and what is not trained */
    void *working_buffers; /* likewise */
    size_t buffer_count;
    size_t *offsets; /* [parameters]: in elements, into the block of its role */
    /* num_batches_tracked of a parameter is tracked[parameter] + forwards, the number of forward
     * passes in training since. */
    int64_t *tracked, forwards;
    ff_control *control;     /* one, on the device */
    const ff_groups *groups; /* groups.h; the owner's; NULL or empty: all are one group, of SGD */
    /* How layers hold their weights, by layer; the plan that was made first owns them. */
    ff_conv *const *convs;
    const ff_tensor *tensors;
} ff_store;

/* Room for the parameters of a graph whose layers were planned: `convs[layer]` of convolutions,
 * `tensors[layer]` = the layer's output. Both and the compute outlive the store. Values are zero,
 * running variances too; the control is at step 0 with a loss scale of 1. On failure *store holds
 * nothing. */
FF_MUST_USE ff_status ff_store_create(ff_store *store, const ff_graph *graph, ff_compute *compute,
                                      ff_conv *const *convs, const ff_tensor *tensors,
                                      ff_error *error);
void ff_store_destroy(ff_store *store);

/* Draws the initial values: element e of parameter p from
 * ff_philox_draw(seed, FF_DOMAIN_INIT, p, e, 0). */
FF_MUST_USE ff_status ff_store_initialise(ff_store *store, uint64_t seed, ff_error *error);

/* Between torch's order in ordinary memory and the device; waits. f32 parameters only; gradients
 * and momentum are trained parameters'. Importing values also makes the working copy. Failures
 * stick in the compute. */
void ff_store_export(const ff_store *store, int parameter, ff_parameter_part part, float *to);
void ff_store_import(ff_store *store, int parameter, ff_parameter_part part, const float *from);

/* Where a parameter lies on the device: its f32 values, what convolutions and linear layers read,
 * and its gradient, f32 or, of weights, of the compute's dtype. */
float *ff_store_value(const ff_store *store, int parameter);
const void *ff_store_working(const ff_store *store, int parameter);
void *ff_store_gradient(const ff_store *store, int parameter);

/* Enqueues zeros for the gradient of a trained parameter. */
void ff_store_clear_gradient(ff_store *store, int parameter);

/* Buckets of the gradients, in the order in which the backward pass completes them; the last ends
 * where the block does. Elements of the two parts of the block: weights, and channels after
 * weight_count. */
typedef struct ff_bucket {
    size_t weights, weights_end;
    size_t channels, channels_end;
    ff_node layer; /* complete once the backward pass is through with it and those after it */
} ff_bucket;
/* Each of at least `bytes` (0 = all in one), but the last; *buckets is the caller's to free. */
FF_MUST_USE ff_status ff_store_buckets(const ff_store *store, uint64_t bytes, ff_bucket **buckets,
                                       int *count, ff_error *error);

#endif
