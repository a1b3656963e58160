/* The parameters of a model, on the compute's device: one block of memory per role, every parameter
 * at its offset, in the element order of its layer; copies in and out are in torch's order.
 *
 * Masters, optimizer state and running statistics are f32. If activations are 16-bit, convolutions
 * and linear layers read copies of that dtype (`working`), and gradients of weights (rank 2 and up)
 * have that dtype; gradients of per-channel parameters are always f32. */
#ifndef FF_TRAIN_STORE_H
#define FF_TRAIN_STORE_H

#include "train/compute/compute.h"
#include "train/net/graph.h"
#include "train/net/model.h"

typedef struct ff_groups ff_groups;

typedef struct ff_store {
    const ff_graph *graph;
    ff_compute *compute;
    /* [trained_count]: values and the optimizer's state, in the same order: first the weights, then
     * the per-channel parameters, both in the order in which the backward pass computes their
     * gradients (the last layer first):
     *   | fc.weight | layer4.1.conv2.weight | ... | conv1.weight | fc.bias | ... | bn1.bias |
     * Each is aligned to 16 elements; gaps and padding lanes are zero and stay zero. */
    float *values;
    /* The same order: the optimizers' blocks of state; their number is the most that a group's
     * optimizer has; NULL past them. A span whose optimizer has fewer leaves its part of the others
     * zero. */
    float *state[FF_STATES];
    void *working; /* [trained_count] of the compute's dtype; `values` itself if that is f32 */
    /* The same order: [weight_count] of the compute's dtype, then [trained_count - weight_count]
     * f32. */
    char *gradients;
    /* [trained_count] f32: sums of gradients over micro-batches (ff_store_reserve_sums), and the
     * outcome of the micro-batches so far; NULL if a step is one batch of one rank. `sums` may be
     * the gradients. */
    float *sums;
    ff_outcome *total;
    /* With a fixed tree of micro-batches (ff_store_reserve_tree): sums[levels][sum_count] and
     * total[levels]; in the end level 0 holds the sums of the step. After its gradients each level
     * has sums of what the micro-batches changed in the buffers; `held` is the buffers before the
     * step. Without a tree: one level of gradients alone, and `held` is NULL. */
    size_t sum_count;
    float *held;
    size_t weight_count, trained_count;
    float *buffers; /* [buffer_count]: running means and variances, and parameters that are not
                       trained */
    void *working_buffers; /* the copies of `buffers` in the compute's dtype */
    size_t buffer_count;
    /* Averages over updates of values and buffers, and their working copies (average.h); NULL if no
     * average is kept. */
    float *average, *average_buffers;
    void *average_working, *average_working_buffers;
    size_t *offsets; /* [parameters]: in elements, into the block of its role */
    /* num_batches_tracked of a parameter is tracked[parameter] + forwards, the number of training
     * forward passes since; for a held batch norm only tracked[parameter]. */
    int64_t *tracked, forwards;
    ff_control *control;     /* one, on the device */
    const ff_groups *groups; /* groups.h; owned by the caller; NULL or empty: one SGD group */
    /* How layers hold their weights, by layer; owned by the first plan. */
    ff_conv *const *convs;
    const ff_tensor *tensors;
} ff_store;

/* Allocates the parameters of a graph whose layers are planned: `convs[layer]` for convolutions,
 * `tensors[layer]` = the layer's output. Both and the compute must outlive the store. Values are
 * zero, also running variances; the control is at step 0 with loss scale 1. On failure *store holds
 * nothing. */
FF_MUST_USE ff_status ff_store_create(ff_store *store, const ff_graph *graph, ff_compute *compute,
                                      ff_conv *const *convs, const ff_tensor *tensors,
                                      ff_error *error);
void ff_store_destroy(ff_store *store);
/* Allocates blocks of state up to `count`; a new store has one. */
FF_MUST_USE ff_status ff_store_reserve_states(ff_store *store, int count, ff_error *error);
/* Allocate `sums` and `total`; for a tree of at most `parts` micro-batches, also `held`.
 * `in_place`: f32 gradients are themselves the sums, of the one micro-batch of a step; they must be
 * of the sum over its samples. */
FF_MUST_USE ff_status ff_store_reserve_sums(ff_store *store, bool in_place, ff_error *error);
FF_MUST_USE ff_status ff_store_reserve_tree(ff_store *store, int64_t parts, ff_error *error);

/* Whether there are sums, in memory of their own. */
bool ff_store_sums_apart(const ff_store *store);

/* All memory that steps and evaluations change and later ones continue from, each block once:
 * values, optimizer state, running statistics, their averages, the working copies, the control. */
typedef struct ff_store_block {
    void *memory; /* NULL: the store has no such block */
    size_t bytes;
} ff_store_block;
enum { FF_STORE_BLOCKS = 9 + FF_STATES };
void ff_store_blocks(const ff_store *store, ff_store_block blocks[FF_STORE_BLOCKS]);

/* Draws the initial values: element e of parameter p from
 * ff_philox_draw(*seed, FF_DOMAIN_INIT, p, e, 0). seed: NULL = all are 0, and nothing is drawn. */
FF_MUST_USE ff_status ff_store_initialise(ff_store *store, const uint64_t *seed, ff_error *error);

/* Copies between torch's order in host memory and the device; waits. Only f32 parameters; gradients
 * and state only for trained ones. Importing values also makes the working copy. Failures stick in
 * the compute. */
void ff_store_export(const ff_store *store, int parameter, ff_parameter_part part, float *to);
void ff_store_import(ff_store *store, int parameter, ff_parameter_part part, const float *from);

/* A parameter's addresses on the device: its f32 values, the copy that convolutions and linear
 * layers read, and its gradient, f32 or (weights) of the compute's dtype. */
float *ff_store_value(const ff_store *store, int parameter);
const void *ff_store_working(const ff_store *store, int parameter);
void *ff_store_gradient(const ff_store *store, int parameter);

/* Enqueues zeros for the gradient of a trained parameter, and for its sum. */
void ff_store_clear_gradient(ff_store *store, int parameter);

/* Buckets of gradients, in the order in which the backward pass completes them; the last ends at
 * the block's end. A bucket is two ranges of elements: of weights, and of channels, which come
 * after weight_count in the block. */
typedef struct ff_bucket {
    size_t weights, weights_end;
    size_t channels, channels_end;
    ff_node layer; /* complete when the backward pass has passed this layer */
} ff_bucket;
/* Each except the last has at least `bytes` (0 = one bucket); the caller frees *buckets. */
FF_MUST_USE ff_status ff_store_buckets(const ff_store *store, uint64_t bytes, ff_bucket **buckets,
                                       int *count, ff_error *error);

#endif
