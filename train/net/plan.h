/* A graph planned for one batch size and size of images: layers fused into operations, algorithms
 * chosen, memory laid out. plan_fuse.c fuses, plan.c connects, plan_memory.c lays out, plan_run.c
 * runs; code for one type of operation is in ops/.
 *
 * Memory: two arenas on the compute's device, each one allocation, shared by all plans of a model.
 * One plan runs at a time, and its results (logits) are valid until the next one runs. Time runs 0
 * .. F-1 over the forward operations, F is the loss, F+1 .. 2F the backward operations in reverse.
 * A buffer lives from its first to its last use and shares its bytes with buffers of other
 * times. */
#ifndef FF_TRAIN_PLAN_H
#define FF_TRAIN_PLAN_H

#include "train/compute/compute.h"
#include "train/net/graph.h"
#include "train/net/model.h"
#include "train/net/store.h"

/* A type of operation: its functions (ops/ops.h). */
typedef struct ff_op_type ff_op_type;

/* Index into ff_plan.buffers. */
typedef int ff_buffer_id;
enum { FF_BUFFER_NONE = -1, FF_BUFFER_IMAGES = -2 /* the caller's batch */ };

/* The most users of a value, each adding a gradient. */
enum { FF_MAX_USERS = 4 };

typedef struct ff_op ff_op;

/* Training: the convolution computes the `sums` for the norm after it (counts_for), and reads the x
 * of the norm folded into it (ff_fold). Else NONE and NULL. */
typedef struct ff_conv_op {
    ff_conv *planned;
    bool bias_apart; /* the activation after it computes the bias's gradient */
    ff_op *counts_for, *folds;
    ff_buffer_id sums, kept; /* kept: ff_conv.kept */
} ff_conv_op;

typedef struct ff_conv_pool_op {
    ff_node pool;
    ff_conv *planned, *tail; /* for a chunk, and for a smaller last chunk or NULL */
    int chunk;               /* samples at a time */
    ff_tensor middle;        /* the output of a chunk's convolution */
    ff_buffer_id index;      /* u8 positions of the maxima */
    ff_buffer_id room;       /* holds `middle`, and its gradient */
    ff_buffer_id partial;    /* gradients of the bias, then of the weights, of a chunk */
    ff_buffer_id sums;       /* f32 sums of the weights' gradients, if these are 16-bit */
} ff_conv_pool_op;

typedef struct ff_norm_op {
    ff_activation activation;
    ff_op *counted_by;    /* computes its statistics, or their sums; NULL = the norm itself */
    ff_op *folded_by;     /* the convolution that it is folded into; NULL = not folded */
    ff_op *adds;          /* the norm that its addition applies, too; NULL = none */
    ff_op *added_by;      /* the norm that applies this one; NULL = itself */
    ff_op *passes;        /* the pool before it whose backward pass is in its own; NULL = none */
    bool held;            /* ff_norm.held */
    ff_buffer_id mask;    /* ff_norm.mask */
    ff_buffer_id saved;   /* mean and inv_std, [2][padded channels] */
    ff_buffer_id fold;    /* scale and shift of ff_fold */
    ff_buffer_id factors; /* of its backward pass */
} ff_norm_op;

typedef struct ff_pool_op {
    ff_buffer_id index; /* u8 positions of the maxima */
    ff_op *counts_for;  /* the norm whose statistics it computes, or NULL */
} ff_pool_op;

typedef struct ff_activation_op {
    ff_op *bias_of; /* the convolution before it whose bias's gradient it computes, or NULL */
} ff_activation_op;

typedef struct ff_dropout_op {
    uint32_t number; /* among the net's dropouts */
} ff_dropout_op;

struct ff_op {
    const ff_op_type *type;
    ff_node layer;       /* whose parameters it uses; the first of fused layers */
    ff_node from, from2; /* values read; from2 = a norm's residual, an add's second summand; -1 */
    ff_node out;         /* the value computed */
    ff_tensor input, output;
    ff_buffer_id x, x2, y;           /* values of from, from2, out */
    bool unwritten;                  /* y is never written: its readers get x */
    bool backward;                   /* takes part in the backward pass */
    ff_buffer_id dy, dy2;            /* gradients of out; dy2 NONE unless the type adds two */
    ff_buffer_id more[FF_MAX_USERS]; /* further gradients of out, added to dy first */
    int more_count;
    ff_buffer_id dx, dx2; /* gradients of from, from2; NONE = not computed */
    union {               /* by type; other types have no fields */
        ff_conv_op conv;
        ff_conv_pool_op conv_pool;
        ff_norm_op norm;
        ff_pool_op pool;
        ff_activation_op activation;
        ff_dropout_op dropout;
    };
};

typedef enum ff_arena { FF_ARENA_ACTIVATIONS, FF_ARENA_SCRATCH, FF_ARENA_COUNT } ff_arena;

typedef struct ff_planned_buffer {
    ff_arena arena;
    size_t bytes;
    int first, last; /* times of the first and last use */
    size_t offset;   /* into its arena */
} ff_planned_buffer;

/* Memory of a model's plans, with the size that the largest plan needs. Adding a plan may move the
 * memory, so make all plans before the first step is captured. */
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
    /* [parameters]: the trained ones whose gradients this plan does not compute; NULL = none. */
    bool *without;
    bool *wanted;      /* [layers]: the gradient of the layer's output is computed */
    ff_loss_form loss; /* as in ff_loss, of training */
    double smoothing;
    const float *class_weights; /* as in ff_loss; of the model */
    double divisor;             /* of the loss's gradient, as in ff_loss */
    uint64_t seed;              /* of dropout */
    ff_batch_share share;       /* of the model */
    ff_op *ops;
    int op_count;
    ff_tensor *tensors; /* [layers]: each layer's output */
    ff_conv **convs;    /* [layers]: the convolution that holds the layer's weights */
    ff_planned_buffer *buffers;
    int buffer_count;
    size_t buffer_capacity;
    ff_arenas *arenas; /* owned by the first plan */
    bool owns_arenas;
    size_t arena_bytes[FF_ARENA_COUNT]; /* used by this plan */
    /* plan_views.c: the number of views in evaluation; by default 1, without memory */
    int views;
    void *view_images;
    float *view_logits;
    size_t view_bytes;
    ff_buffer_id logits, logits_gradient, loss_scratch;
    ff_buffer_id shared_scratch, norm_scratch; /* shared by all operations */
};

/* Whether the plan computes the gradient of a parameter, and of the k-th parameter of the
 * operation's layer. */
static inline bool ff_plan_trains_parameter(const ff_plan *plan, int parameter) {
    if (plan->without && plan->without[parameter]) return false;
    return plan->graph->parameters[parameter].trained;
}
static inline bool ff_op_trains(const ff_plan *plan, const ff_op *op, int k) {
    return ff_plan_trains_parameter(plan, plan->graph->layers[op->layer].parameter + k);
}

/* The value that a view (flatten) refers to; any other node itself. */
ff_node ff_plan_origin(const ff_plan *plan, ff_node node);

/* Plans. `sibling` (or NULL) is the plan whose weights and arenas the new one shares; its graph may
 * be for another size of images, with the same parameters and convolutions. without: as in ff_plan,
 * copied; nothing needed only for these gradients is computed. The caller sets `store` and destroys
 * the plan; siblings before the first plan. On failure *plan = NULL. */
FF_MUST_USE ff_status ff_plan_create(ff_plan **plan, const ff_graph *graph, ff_compute *compute,
                                     int batch, bool training, const bool *without,
                                     const ff_plan *sibling, ff_error *error);
void ff_plan_destroy(ff_plan **plan);

/* From now on the plan's convolutions write all elements of their gradients, because another plan
 * writes elements that are always zero in this one (ff_conv_shape.gradient_zeroed). */
void ff_plan_write_all(ff_plan *plan);

/* ---- plan_fuse.c ---- */

/* Fills plan->ops (allocated: one per layer) from the graph and plan->tensors, with the fusions
 * that the compute asks for. Which of them its convolutions support is known when they are
 * planned. */
FF_MUST_USE ff_status ff_plan_fuse(ff_plan *plan, ff_error *error);

/* ---- plan_run.c ---- */

/* Called when the backward pass has enqueued the last work on a bucket of gradients. */
typedef struct ff_bucket_watch {
    const ff_bucket *buckets;
    int count;
    void (*completed)(void *context, const ff_plan *plan, int bucket);
    void *context;
} ff_bucket_watch;

/* Enqueues all work of a batch: forward, loss, and backward if `training`. Images, labels, weights
 * and mix are on the device and must stay valid until the work is done. Dropout uses the step
 * number in the store's control. The loss goes to the ring (ff_loss); evaluation writes entry 0.
 * ring_size 0: no loss is computed, for batches without labels. watch: for the buckets, or NULL.
 * Failures stick in the compute. */
void ff_plan_enqueue(ff_plan *plan, const ff_batch *batch, bool training, ff_outcome *ring,
                     uint32_t ring_size, const ff_bucket_watch *watch);

/* Enqueues this rank's part in a batch of which it has no sample: the batch norms' statistics, if
 * ranks share them (running statistics advance as on the other ranks), and `watch`, in the same
 * order. */
void ff_plan_enqueue_empty(ff_plan *plan, const ff_bucket_watch *watch);

/* ---- plan_views.c ---- */

/* One of a plan's views, and the weight of its logits in the mean. */
typedef struct ff_planned_view {
    int down, right;
    bool mirror;
    float weight;
} ff_planned_view;

/* View `index` of `views`, which is 1, 2 or 6. */
ff_planned_view ff_plan_view(int views, int index);
/* Enqueues making a view of `images` (layout of the input); returns the view, or `images` if the
 * view is the same. */
const void *ff_plan_make_view(ff_plan *plan, const ff_planned_view *view, const void *images);
void ff_plan_release_views(ff_plan *plan);

/* ---- plan_memory.c ---- */

/* A buffer first used at `time`; of at least `bytes`, 64-byte aligned. */
FF_MUST_USE ff_status ff_plan_buffer(ff_plan *plan, ff_arena arena, size_t bytes, int time,
                                     ff_buffer_id *id, ff_error *error);
/* Extends the lifetime of a buffer to `time`. NONE and IMAGES are accepted. */
void ff_plan_use(ff_plan *plan, ff_buffer_id id, int time);
/* Lays out all buffers and makes the arenas large enough; new memory is zero. */
FF_MUST_USE ff_status ff_plan_allocate(ff_plan *plan, ff_error *error);

/* The address of a buffer, on the compute's device; NULL for NONE. */
static inline void *ff_plan_at(const ff_plan *plan, ff_buffer_id id) {
    if (id < 0) return NULL;
    return plan->arenas->memory[plan->buffers[id].arena] + plan->buffers[id].offset;
}

#endif
