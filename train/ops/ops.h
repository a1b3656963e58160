/* What a plan's operations are made of: a type for each, with what it does at every stage of a
 * plan's life, one file a type, which also builds its layers (graph.h). plan.c, plan_fuse.c and
 * plan_run.c walk the layers and the operations; everything that depends on what an operation is
 * lies here.
 *
 * Thread rule: the plan's thread. */
#ifndef FF_TRAIN_OPS_H
#define FF_TRAIN_OPS_H

#include "train/plan.h"

/* ---- while layers become operations ---- */

typedef struct ff_fuser {
    ff_plan *plan;
    int *users;         /* [layers]: how many layers read it */
    ff_node *only_user; /* [layers]: the last of them */
    bool *fused;        /* [layers]: part of an operation already */
    uint32_t dropouts;  /* so far */
} ff_fuser;

/* The only user of a value where it is of that kind; else -1. */
ff_node ff_fuser_only_user(const ff_fuser *f, ff_node node, ff_layer_kind kind);
/* The operation ends with that layer, too. */
void ff_fuser_take(ff_fuser *f, ff_op *op, ff_node layer);

/* ---- while memory is planned ---- */

/* Times of operations (plan.h). */
int ff_op_forward_time(const ff_plan *plan, const ff_op *op);
int ff_op_backward_time(const ff_plan *plan, const ff_op *op);

typedef struct ff_planner {
    ff_plan *plan;
    const ff_plan *sibling;
    ff_buffer_id *values;                    /* [layers] */
    ff_buffer_id (*gradients)[FF_MAX_USERS]; /* [layers] */
    int *gradient_count;
    size_t shared_bytes; /* scratch of convolutions and linear layers, in turns */
    size_t norm_floats;  /* of norms */
} ff_planner;

/* `buffer` holds a gradient of `node`; or a new one does. */
FF_MUST_USE ff_status ff_planner_give(ff_planner *b, ff_node node, ff_buffer_id buffer,
                                      ff_error *error);
FF_MUST_USE ff_status ff_planner_give_new(ff_planner *b, ff_node node, int now, ff_buffer_id *id,
                                          ff_error *error);
/* op->dx, a new buffer, where the gradient of what the operation reads is wanted. */
FF_MUST_USE ff_status ff_planner_give_input(ff_planner *b, ff_op *op, int now, ff_error *error);
/* op->dx in place of op->dy. */
FF_MUST_USE ff_status ff_planner_pass_on(ff_planner *b, ff_op *op, ff_error *error);
void ff_planner_share(ff_planner *b, size_t bytes);

/* ---- while it runs ---- */

/* One pass over a batch; images are the caller's. */
typedef struct ff_pass {
    ff_plan *plan;
    const ff_compute_ops *table;
    ff_compute *compute;
    const void *images;
    bool training; /* batch statistics and dropout */
} ff_pass;

/* Where a buffer lies; NULL for NONE. */
static inline void *ff_pass_at(const ff_pass *pass, ff_buffer_id id) {
    return id == FF_BUFFER_IMAGES ? (void *)pass->images : ff_plan_at(pass->plan, id);
}
static inline const ff_layer *ff_pass_layer(const ff_pass *pass, const ff_op *op) {
    return &pass->plan->graph->layers[op->layer];
}
/* The k-th parameter of the operation's layer: its f32 values, what convolutions and linear layers
 * read of it, and its gradient; NULL where it is not trained. */
float *ff_pass_parameter(const ff_pass *pass, const ff_op *op, int k);
const void *ff_pass_working(const ff_pass *pass, const ff_op *op, int k);
void *ff_pass_gradient(const ff_pass *pass, const ff_op *op, int k);
/* The same of a bias, parameter 1: NULL where the layer has none. */
const void *ff_pass_bias(const ff_pass *pass, const ff_op *op);
float *ff_pass_bias_gradient(const ff_pass *pass, const ff_op *op);
static inline void *ff_pass_scratch(const ff_pass *pass) {
    return ff_plan_at(pass->plan, pass->plan->shared_scratch);
}
static inline float *ff_pass_norm_scratch(const ff_pass *pass) {
    return ff_plan_at(pass->plan, pass->plan->norm_scratch);
}

/* ---- types ---- */

enum { FF_OP_NAME = 96 };

struct ff_op_type {
    const char *name; /* in tables of costs, where `describe` is NULL */
    /* Optional: the block of the layer's output, where it is not that of its input; what cannot be
     * planned is refused. */
    ff_status (*shape)(const ff_plan *plan, const ff_layer *layer, ff_tensor *output,
                       ff_error *error);
    /* Optional: takes further layers, and sets what is the type's own; may change op->type. */
    void (*fuse)(ff_fuser *f, ff_op *op);
    /* Optional: once there are all operations, works with others of them. */
    void (*pair)(const ff_fuser *f, ff_op *op);
    /* Optional: algorithms. */
    ff_status (*choose)(const ff_planner *b, ff_op *op, ff_error *error);
    void (*destroy)(ff_compute *compute, ff_op *op);
    /* Optional: buffers beside x, x2 and y of the forward pass, and scratch. */
    ff_status (*plan_forward)(ff_planner *b, ff_op *op, int now, ff_error *error);
    /* Buffers of the backward pass: what it reads lives until `now`, gradients are made in place
     * where the old one is not needed again; a buffer of a gradient has one owner at a time. */
    ff_status (*plan_backward)(ff_planner *b, ff_op *op, int now, ff_error *error);
    bool adds_two; /* adds a second gradient of its output (dy2) on the way */
    void (*forward)(const ff_pass *pass, const ff_op *op);
    void (*backward)(const ff_pass *pass, const ff_op *op);
    /* Optional: what the operation does, for tables of costs. */
    void (*describe)(const ff_plan *plan, const ff_op *op, bool forward, char text[FF_OP_NAME]);
};

/* What each layer becomes by itself; one that is a view of another becomes nothing. */
#define FF_OP_TYPES(type)                                                                          \
    type(CONV, conv) type(NORM, norm) type(ACTIVATION, activation) type(MAX_POOL, pool)            \
        type(AVERAGE_POOL, pool) type(LINEAR, linear) type(ADD, add) type(DROPOUT, dropout)

/* NULL: nothing. */
const ff_op_type *ff_op_type_of(ff_layer_kind kind);

#define FF_OP_DECLARE(layer, type) extern const ff_op_type ff_op_##type;
FF_OP_TYPES(FF_OP_DECLARE)
extern const ff_op_type ff_op_conv_pool; /* what a convolution may become */

/* The pool of an operation with one, over `input`. */
ff_pool ff_op_pool_of(const ff_plan *plan, ff_node layer, const ff_op *op, const ff_tensor *input);
/* Of a norm that another operation works with. */
ff_norm ff_op_norm_of(const ff_pass *pass, const ff_op *op);
ff_fold ff_op_fold_of(const ff_pass *pass, const ff_op *op);
/* What the convolution that does `norm` reads and writes of it at `now`, in the backward pass. */
FF_MUST_USE ff_status ff_op_norm_plan_folded(ff_plan *plan, ff_op *norm, int now, ff_error *error);
/* Of a convolution: what is asked of the table. */
ff_conv_shape ff_op_conv_shape(const ff_plan *plan, const ff_op *op);

#endif
