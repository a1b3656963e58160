/* A graph planned for one batch size: layers fused into operations, algorithms chosen, memory laid
 * out. plan_fuse.c fuses, plan.c wires, plan_memory.c lays out, plan_run.c runs.
 *
 * Fusions: norm + add + ReLU, norm + ReLU and norm + GELU become one operation; where the compute
 * has FF_FUSE_CONV_POOL, a convolution with a max pool right behind it becomes one that works
 * through the batch in chunks, so that the full-size output stays in cache and never takes a whole
 * batch of memory; where it has FF_FUSE_NORM_CONV, norm + ReLU is done by the convolution that
 * reads it.
 *
 * Memory: two arenas of the compute's device, each one allocation, which all plans of a model
 * share: one of them runs at a time, and what it leaves (logits) is valid until the next runs. Time
 * runs 0 .. F-1 over the forward operations, F is the loss, F+1 .. 2F the backward operations in
 * reverse; a buffer lives from its first to its last use and shares its bytes with buffers of other
 * times. */
#ifndef FF_TRAIN_PLAN_H
#define FF_TRAIN_PLAN_H

#include "train/compute.h"
#include "train/graph.h"
#include "train/model.h"
#include "train/store.h"

typedef enum ff_op_kind {
    FF_OP_CONV,
    FF_OP_CONV_POOL,
    FF_OP_NORM, /* + add, + ReLU; or + GELU */
    FF_OP_RELU,
    FF_OP_GELU,
    FF_OP_POOL,
    FF_OP_LINEAR,
    FF_OP_ADD,
    FF_OP_DROPOUT,
} ff_op_kind;

/* Index into ff_plan.buffers. */
typedef int ff_buffer_id;
enum { FF_BUFFER_NONE = -1, FF_BUFFER_IMAGES = -2 /* the caller's batch */ };

/* Gradients that arrive at one value before it is summed: its users. */
enum { FF_MAX_USERS = 4 };

typedef struct ff_op {
    ff_op_kind kind;
    ff_node layer;       /* whose parameters; of CONV_POOL the convolution */
    ff_node pool;        /* CONV_POOL: the pool */
    ff_node from, from2; /* values read; from2 = the residual of NORM, the second of ADD, or -1 */
    ff_node out;         /* the value made */
    ff_tensor input, output;
    ff_activation activation; /* NORM */
    uint32_t dropout;         /* DROPOUT: number of this one among the net's */
    ff_buffer_id x, x2, y;    /* values of from, from2, out */
    ff_buffer_id index;       /* max pools: u8 places; norms: their masks */
    ff_buffer_id saved;       /* NORM: mean and inv_std, [2][padded channels] */
    /* Training: CONV: the sums that the norm behind it wants, POOL: nothing but that norm, whose
     * statistics it makes; NORM: the operation that did so for it. Else NONE and -1. */
    ff_buffer_id sums;
    int counts_for, counted_by; /* indexes of operations */
    /* CONV: the norm that it does as it reads; NORM: the convolution that does it, which is given
     * the norm's x; fold: scale and shift, factors: of the backward pass (ff_fold). Else -1, NONE.
     */
    int folds, folded_by;
    ff_buffer_id fold, factors;
    bool backward;                   /* takes part in the backward pass */
    ff_buffer_id dy, dy2;            /* gradients of out; dy2 of NORM only, or NONE */
    ff_buffer_id more[FF_MAX_USERS]; /* further gradients of out, added to dy first */
    int more_count;
    ff_buffer_id dx, dx2; /* gradients of from, from2; NONE where not wanted */
    /* CONV, CONV_POOL */
    ff_conv *conv, *tail; /* of a chunk (CONV: all samples), and of a smaller last chunk or NULL */
    int chunk;            /* samples at a time */
    ff_tensor middle;     /* CONV_POOL: what the convolution of a chunk gives */
    ff_buffer_id room;    /* CONV_POOL: holds it, and its gradient */
    ff_buffer_id partial; /* CONV_POOL: gradients of the weights, then of the bias, of a chunk */
} ff_op;

/* Floats of ff_op.partial: the weights, up to a multiple of 16, and the bias. */
static inline size_t ff_op_partial_weights(const ff_op *op) {
    return (op->conv->weight_count + 15) / 16 * 16;
}
static inline size_t ff_op_partial_count(const ff_op *op) {
    return ff_op_partial_weights(op) + (size_t)ff_tensor_padded_channels(&op->middle);
}

typedef enum ff_arena { FF_ARENA_ACTIVATIONS, FF_ARENA_SCRATCH, FF_ARENA_COUNT } ff_arena;

typedef struct ff_planned_buffer {
    ff_arena arena;
    size_t bytes;
    int first, last; /* times of the first and last use */
    size_t offset;   /* into its arena */
} ff_planned_buffer;

/* Memory of a model's plans: as much as the largest wants. Adding a plan may move it, so all plans
 * are made before the first step is recorded. */
typedef struct ff_arenas {
    char *memory[FF_ARENA_COUNT];
    size_t bytes[FF_ARENA_COUNT];
} ff_arenas;

struct ff_plan {
    ff_plan *next; /* the model's list */
    const ff_graph *graph;
    ff_compute *compute;
    ff_store *store; /* the model's; set before the first step */
    int batch;
    bool training;
    /* [parameters]: trained ones whose gradients this plan does not make; NULL = none. */
    bool *without;
    bool *wanted; /* [layers]: the gradient of the layer's output is made */
    double smoothing;
    bool summed;   /* the loss is the sum over the batch, not its mean */
    uint64_t seed; /* of dropout */
    ff_op *ops;
    int op_count;
    ff_tensor *tensors; /* [layers]: each layer's output */
    ff_conv **convs;    /* [layers]: the convolution that holds the layer's weights */
    ff_planned_buffer *buffers;
    int buffer_count;
    size_t buffer_capacity;
    ff_arenas *arenas; /* of the plan made first, which owns them */
    bool owns_arenas;
    size_t arena_bytes[FF_ARENA_COUNT]; /* that this plan uses */
    /* plan_views.c: of evaluation; 1, and no memory, unless set */
    int views;
    void *view_images;
    float *view_logits;
    size_t view_bytes;
    ff_buffer_id logits, logits_gradient, loss_scratch, conv_scratch, norm_scratch;
};

/* Whether the plan makes the gradient of a parameter, and of the k-th one of the operation's layer.
 */
static inline bool ff_plan_trains_parameter(const ff_plan *plan, int parameter) {
    if (plan->without && plan->without[parameter]) return false;
    return plan->graph->parameters[parameter].trained;
}
static inline bool ff_op_trains(const ff_plan *plan, const ff_op *op, int k) {
    return ff_plan_trains_parameter(plan, plan->graph->layers[op->layer].parameter + k);
}

/* Plans; `sibling` (or NULL) is the plan whose weights and arenas it shares. without: as in
 * ff_plan, copied; nothing that only they want is computed. The caller sets `store` and destroys
 * it; siblings before the first. On failure *plan = NULL. */
FF_MUST_USE ff_status ff_plan_create(ff_plan **plan, const ff_graph *graph, ff_compute *compute,
                                     int batch, bool training, const bool *without,
                                     const ff_plan *sibling, ff_error *error);
void ff_plan_destroy(ff_plan **plan);

/* ---- plan_fuse.c ---- */

/* Fills plan->ops (room for one a layer) from the graph and plan->tensors, with the fusions that
 * the compute asks for; which of them its convolutions can do is found when those are planned. */
FF_MUST_USE ff_status ff_plan_fuse(ff_plan *plan, ff_error *error);

/* ---- plan_run.c ---- */

/* Events to be recorded where the backward pass has completed a bucket of gradients. */
typedef struct ff_bucket_events {
    const ff_bucket *buckets;
    ff_event *const *events;
    int count;
} ff_bucket_events;

/* Gives the compute all work of a batch: forward, loss, and backward where `training`. Images,
 * labels, weights and mix are on the device and stay until it is done. The step, by which dropout
 * draws, is that of the store's control. The loss goes to the ring (ff_loss); evaluation
 * writes place 0. events: of the buckets, or NULL. Failures stick in the compute. */
void ff_plan_enqueue(ff_plan *plan, const ff_batch *batch, bool training, ff_outcome *ring,
                     uint32_t ring_size, const ff_bucket_events *events);

/* ---- plan_views.c ---- */

/* One of a plan's views, and what its logits weigh in the mean. */
typedef struct ff_planned_view {
    int down, right;
    bool mirror;
    float weight;
} ff_planned_view;

/* View `index` of `views`, which is 1, 2 or 6. */
ff_planned_view ff_plan_view(int views, int index);
/* Enqueues the making of a view of `images` (layout of the input): returns them, or the view. */
const void *ff_plan_make_view(ff_plan *plan, const ff_planned_view *view, const void *images);
void ff_plan_release_views(ff_plan *plan);

/* ---- plan_memory.c ---- */

/* A buffer first used at `time`; of at least `bytes`, 64-byte aligned. */
FF_MUST_USE ff_status ff_plan_buffer(ff_plan *plan, ff_arena arena, size_t bytes, int time,
                                     ff_buffer_id *id, ff_error *error);
/* Extends its life to `time`. NONE and IMAGES are accepted. */
void ff_plan_use(ff_plan *plan, ff_buffer_id id, int time);
/* Lays all buffers out and makes the arenas large enough; what is new is zero. */
FF_MUST_USE ff_status ff_plan_allocate(ff_plan *plan, ff_error *error);

/* Where a buffer lies, on the compute's device; NULL for NONE. */
static inline void *ff_plan_at(const ff_plan *plan, ff_buffer_id id) {
    if (id < 0) return NULL;
    return plan->arenas->memory[plan->buffers[id].arena] + plan->buffers[id].offset;
}

#endif
