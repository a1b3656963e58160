/* The types of a plan's operations. Each type has a function for every stage of a plan's life, in
 * one file per type, which also builds its layers (graph.h). plan.c, plan_fuse.c and plan_run.c
 * loop over layers and operations; all code for one type is here.
 *
 * Thread rule: the plan's thread. */
#ifndef FF_TRAIN_OPS_H
#define FF_TRAIN_OPS_H

#include "train/net/plan.h"

/* ---- while layers become operations ---- */

typedef struct ff_fuser {
    ff_plan *plan;
    int *users;         /* [layers]: the number of layers that read it */
    ff_node *only_user; /* [layers]: the last of these users */
    bool *fused;        /* [layers]: part of an operation already */
    uint32_t dropouts;  /* so far */
} ff_fuser;

/* The only user of a value, if it is of that kind; else -1. */
ff_node ff_fuser_only_user(const ff_fuser *f, ff_node node, ff_layer_kind kind);
/* Fuses `layer` into the operation, as its last. */
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
    size_t shared_bytes; /* scratch, shared by convolutions and linear layers */
    size_t norm_floats;  /* scratch of norms */
} ff_planner;

/* Adds a gradient of `node`, in `buffer` or in a new buffer. */
FF_MUST_USE ff_status ff_planner_give(ff_planner *b, ff_node node, ff_buffer_id buffer,
                                      ff_error *error);
FF_MUST_USE ff_status ff_planner_give_new(ff_planner *b, ff_node node, int now, ff_buffer_id *id,
                                          ff_error *error);
/* Sets op->dx to a new buffer, if the gradient of the operation's input is needed. */
FF_MUST_USE ff_status ff_planner_give_input(ff_planner *b, ff_op *op, int now, ff_error *error);
/* Computes op->dx in place: in the buffer of op->dy. */
FF_MUST_USE ff_status ff_planner_pass_on(ff_planner *b, ff_op *op, ff_error *error);
void ff_planner_share(ff_planner *b, size_t bytes);

/* ---- while it runs ---- */

/* One pass over a batch; images are owned by the caller. */
typedef struct ff_pass {
    ff_plan *plan;
    const ff_compute_ops *table;
    ff_compute *compute;
    const void *images;
    bool training; /* batch statistics and dropout */
    bool empty;    /* no sample: norms add nothing to the statistics of the other ranks */
} ff_pass;

/* The address of a buffer; NULL for NONE. */
static inline void *ff_pass_at(const ff_pass *pass, ff_buffer_id id) {
    return id == FF_BUFFER_IMAGES ? (void *)pass->images : ff_plan_at(pass->plan, id);
}
static inline const ff_layer *ff_pass_layer(const ff_pass *pass, const ff_op *op) {
    return &pass->plan->graph->layers[op->layer];
}
/* The k-th parameter of the operation's layer: its f32 values, the copy that convolutions and
 * linear layers read, and its gradient; NULL if it is not trained. */
float *ff_pass_parameter(const ff_pass *pass, const ff_op *op, int k);
const void *ff_pass_working(const ff_pass *pass, const ff_op *op, int k);
void *ff_pass_gradient(const ff_pass *pass, const ff_op *op, int k);
/* The same for the bias, parameter 1: NULL if the layer has no bias. */
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
    const char *name; /* what it computes, if `describe` is NULL */
    /* Optional: sets the block of the layer's output, if it differs from its input's; refuses what
     * cannot be planned. */
    ff_status (*shape)(const ff_plan *plan, const ff_layer *layer, ff_tensor *output,
                       ff_error *error);
    /* Optional: fuses further layers, and sets the type's own fields; may change op->type. */
    void (*fuse)(ff_fuser *f, ff_op *op);
    /* Optional: pairs with other operations, after all are made. */
    void (*pair)(const ff_fuser *f, ff_op *op);
    /* Optional: chooses algorithms. */
    ff_status (*choose)(const ff_planner *b, ff_op *op, ff_error *error);
    void (*destroy)(ff_compute *compute, ff_op *op);
    /* Optional: buffers of the forward pass in addition to x, x2 and y, and scratch. */
    ff_status (*plan_forward)(ff_planner *b, ff_op *op, int now, ff_error *error);
    /* Buffers of the backward pass: buffers that it reads live until `now`; gradients are computed
     * in place if the old one is not needed again; a gradient's buffer has one owner at a time. */
    ff_status (*plan_backward)(ff_planner *b, ff_op *op, int now, ff_error *error);
    bool adds_two; /* adds a second gradient of its output (dy2) itself */
    void (*forward)(const ff_pass *pass, const ff_op *op);
    void (*backward)(const ff_pass *pass, const ff_op *op);
    void (*describe)(const ff_plan *plan, const ff_op *op, bool forward, char text[FF_OP_NAME]);
};

/* What an operation computes, for tables: "conv 3x3 /1, sums for the norm". */
void ff_op_describe(const ff_plan *plan, const ff_op *op, bool forward, char text[FF_OP_NAME]);

/* The operation of each kind of layer; views (flatten) do not have an operation. */
#define FF_OP_TYPES(type)                                                                          \
    type(CONV, conv) type(NORM, norm) type(ACTIVATION, activation) type(MAX_POOL, pool)            \
        type(AVERAGE_POOL, pool) type(LINEAR, linear) type(ADD, add) type(DROPOUT, dropout)

/* The names of the operation's layers, "bn1 + relu"; with `folded`, the names of a norm folded into
 * it, or applied by its addition, come first. Cut to `size`. */
void ff_op_layers(const ff_plan *plan, const ff_op *op, bool folded, char *text, size_t size);

/* NULL: no operation. */
const ff_op_type *ff_op_type_of(ff_layer_kind kind);

#define FF_OP_DECLARE(layer, type) extern const ff_op_type ff_op_##type;
FF_OP_TYPES(FF_OP_DECLARE)
extern const ff_op_type ff_op_conv_pool; /* a convolution with a fused pool */

/* The pool of an operation with one, over `input`. */
ff_pool ff_op_pool_of(const ff_plan *plan, ff_node layer, const ff_op *op, const ff_tensor *input);
/* The norm that is paired with the operation. */
ff_norm ff_op_norm_of(const ff_pass *pass, const ff_op *op);
ff_fold ff_op_fold_of(const ff_pass *pass, const ff_op *op);
/* Plans the buffers of a folded `norm` that its convolution uses at `now`, in the backward pass. */
FF_MUST_USE ff_status ff_op_norm_plan_folded(ff_plan *plan, ff_op *norm, int now, ff_error *error);
/* The shape of a convolution, with what the plan asks of the table. */
ff_conv_shape ff_op_conv_shape(const ff_plan *plan, const ff_op *op);

#endif
