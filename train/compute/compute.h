/* Room train/compute, floor 10: the arithmetic of a training step, as one table of functions.
 *
 * arguments.h describes tensors and the arguments of each entry; this header is the table. memory.c
 * has what all tables share: memory, copies, waiting. precision.h names the precisions; control.h
 * is the state that a step keeps on the device. norm_ranks.h and optimizers/ hold formulas that
 * host and kernels share, one optimizer per file. vector.h is the CPU's vectors, for cpu/ and the
 * optimizers. The tables themselves are the rooms cpu/ and cuda/.
 *
 * May include format, loader/device, loader/sequence.
 *
 * The compute table: everything that a training step computes, as function pointers. Three modules
 * fill it: the plain loops (cpu/reference.c: the reference), oneDNN with fused kernels
 * (cpu/onednn.c) and CUDA (cuda/compute.c). plan.c decides what runs when and in which memory; the
 * table only computes.
 *
 * Tensors. Activations and their gradients have the compute's dtype (f32, f16 or bf16) and are in
 * memory of its device: `void *` here. ff_tensor (arguments.h) is their layout, with padding that
 * every entry keeps zero.
 * Weights of convolutions and linear layers have the compute's dtype (copies of f32 masters if it
 * is 16-bit), and so do their gradients (dw). Per-channel parameters and their gradients (dgamma,
 * dbeta, dbias) are always f32.
 *
 * Entries marked required are in every table; optional ones may be NULL, with the default named.
 * Pointers are 64-byte aligned and must not overlap unless the entry allows it. Only the *_create
 * entries allocate.
 *
 * Time. Entries may only enqueue: they read and write in the compute's stream, in the order of the
 * calls; the host sees results after ff_compute_wait. Arguments passed by pointer (ff_norm, ...)
 * are read before an entry returns; arrays must outlive the work. On CPU tables the work is done
 * when an entry returns. Errors stick: the compute keeps the first one, later calls may do nothing,
 * and ff_compute_check returns it.
 *
 * Thread rule: one thread calls into a compute at a time; CPU entries use `threads` OpenMP threads
 * and are deterministic for a given number of threads. */
#ifndef FF_TRAIN_COMPUTE_H
#define FF_TRAIN_COMPUTE_H

#include "format/base/status.h"
#include "format/disk/dtype.h"
#include "loader/device/device.h"
#include "train/compute/norm_ranks.h"
#include "train/compute/optimizers/muon.h"
#include "train/compute/optimizers/optimizers.h"
#include "train/compute/precision.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- arguments of the entries ---- */

/* y[n,o,p,q] = bias[o] + sum over i,r,s of w[o,i,r,s] x[n, f + i, p * stride - pad + r, q * ...];
 * f: the first input channel of o's group; 0 if groups = 1. */
typedef struct ff_conv_shape {
    ff_tensor input, output; /* output.h = (input.h + 2 pad - kernel) / stride + 1 */
    int kernel, stride, pad;
    int groups; /* at least 1; divides the channels of input and output */
    bool bias;
    bool input_gradient; /* backward_data will be called */
    bool training;       /* backward_weights will be called */
    bool statistics;     /* asks for sums from the forward pass, if it can compute them */
    bool fold;           /* asks to fold a batch norm into it (ff_fold), if possible */
    bool frozen;         /* the weights are not trained: backward_weights gets no dw, only dbias */
    /* dw is zero before the first call and nothing else writes it: elements that are always zero
     * need not be written again */
    bool gradient_zeroed;
} ff_conv_shape;

/* 3x3 over each channel alone; a table may have special kernels for this. */
static inline bool ff_conv_is_depthwise(const ff_conv_shape *s) {
    return s->groups > 1 && s->groups == s->input.c && s->groups == s->output.c && s->kernel == 3 &&
           s->pad == 1 && s->stride <= 2;
}

/* A planned convolution; opaque, owned by the table that made it. It determines how its weights are
 * held: weight_count elements in any order. Their padding is zero and stays zero when gradients of
 * the same order are added. */
typedef struct ff_conv {
    ff_conv_shape shape;
    size_t weight_count;  /* elements of the held weights, padding included */
    size_t scratch_bytes; /* of every call; the caller's device memory, shared by all */
    bool statistics;      /* conv_forward_fused can compute sums */
    bool adds_bias;       /* its own kernel adds the bias, without a second kernel */
    bool folded;          /* conv_forward_fused and fold_backward are its only passes */
    bool depthwise;       /* computed by special kernels, not as a matrix product */
    /* What conv_forward computes from the weights and conv_backward_data reads again, if the caller
     * sets `kept` to kept_bytes of device memory before the forward pass, and the weights do not
     * change between the two. NULL = each computes it. */
    size_t kept_bytes;
    void *kept;
} ff_conv;

/* A batch norm with ReLU (or ReLU6) folded into the convolution after it: the convolution takes the
 * norm's x and applies max(scale * x + shift, 0) while reading, forward and backward. The tensor
 * between the two is never written. scale = gamma * inv_std, shift = beta - mean * scale. */
typedef struct ff_fold {
    ff_norm norm;          /* no residual; y is not written */
    void *scale, *shift;   /* [padded channels] of the compute's dtype */
    float *dgamma, *dbeta; /* both trained */
    float *factors;        /* [3][padded channels]: fold_backward writes, fold_finish reads */
} ff_fold;

/* A row of weights makes one output from all elements of the input in memory order, padding
 * included: w: [padded outputs][ff_tensor_sample(input)]. y: [n][padded outputs], padded to
 * row_block. y[n,o] = scale * sum over k of x[n,k] w[o,k] + bias[o]. */
typedef struct ff_linear {
    ff_tensor input;
    int outputs; /* padded: the outputs of a row of y in memory; those after the real ones are
                  * zero */
    float scale; /* 1, except in nets that scale their logits down */
    bool logits; /* y is always f32; dy has the dtype of activations */
} ff_linear;

/* Adjacent parameters in the store's blocks that are updated in the same way. For an optimizer with
 * norms, a segment is a single parameter. All pointers are device memory. */
typedef struct ff_update_segment {
    int group;
    ff_rule rule;
    size_t count; /* elements */
    const void *gradient;
    ff_dtype gradient_dtype;
    float *sums; /* f32, of sum_gradients; NULL = no sums: the update reads the gradients */
    float *values, *state[FF_STATES];
    bool adapts;         /* as in ff_arrays */
    float *average;      /* of the values; NULL = none */
    void *working;       /* of the compute's dtype; NULL if `values` are read directly */
    const ff_conv *conv; /* MUON: the convolution of these filters */
} ff_update_segment;

/* What an update is prepared from. Host memory, except for the control and the segments'
 * pointers. */
typedef struct ff_update_spec {
    const ff_update_segment *segments;
    int segment_count;
    ff_update_options how;
    const float *buffers;   /* [buffer_count], averaged as the segments' values */
    float *average_buffers; /* NULL = none */
    size_t buffer_count;
    ff_outcome *total; /* with sums: the outcome of a step's micro-batches so far, on the device */
    ff_control *control;
} ff_update_spec;

typedef struct ff_prepared_update ff_prepared_update; /* the table's own */

/* ---- the table ---- */

typedef struct ff_compute ff_compute;

typedef struct ff_compute_options {
    int threads;            /* of the CPU, >= 1 */
    ff_precision precision; /* as ff_compute_allows */
    bool deterministic;     /* only deterministic algorithms, not timed ones; CPU tables always */
    /* For dividing the tuning time: the number of the net's convolutions (identical ones count
     * once), and the number of them that follow a norm with ReLU; 0 = unknown. */
    int convolutions, foldable;
    /* Where to compute; the caller's; must outlive the compute. CPU tables take NULL, or a host
     * device whose streams run in the calling thread. */
    ff_device *device;
    const struct ff_cuda_options *cuda; /* for the CUDA table only (cuda/compute.h) */
} ff_compute_options;

/* Fusions that pay off for a table; plan.c makes such operations if the net has the pattern. */
typedef enum ff_fusion {
    FF_FUSE_CONV_POOL = 1, /* convolution and max pool in chunks, while the output is in cache */
    /* A convolution computes the sums for the norm after it: ff_norm.sums. ff_conv_shape.statistics
     * asks for the sums, ff_conv.statistics grants them. */
    FF_FUSE_CONV_STATISTICS = 2,
    /* A pool computes the next norm's statistics: pool_norm. The norm's backward pass computes the
     * gradient of the pool's input: ff_norm_backward.pool. */
    FF_FUSE_POOL_STATISTICS = 4,
    /* The norm and ReLU before a convolution are folded into the convolution: ff_fold.
     * ff_conv_shape.fold asks for the fold, ff_conv.folded grants it. */
    FF_FUSE_NORM_CONV = 8,
    /* An activation's backward pass computes the gradient of the bias of the convolution before it:
     * activation_bias_backward. */
    FF_FUSE_BIAS_ACTIVATION = 16,
    /* A norm that is only added to another norm is applied by that norm: ff_norm.residual_norm. */
    FF_FUSE_NORM_ADD = 32,
    /* The same as FF_FUSE_NORM_CONV for the norm and ReLU6 before a depthwise convolution. */
    FF_FUSE_NORM_DEPTHWISE = 64,
} ff_fusion;

typedef struct ff_compute_ops {
    const char *name;
    /* Required in tables of the CPU: whether the table computes in this precision
     * (ff_compute_allows). */
    ff_status (*allows)(ff_precision precision, ff_error *error);
    /* required. On failure *compute = NULL. */
    ff_status (*open)(ff_compute **compute, const ff_compute_options *options, ff_error *error);
    /* Waits for the enqueued work first. */
    void (*close)(ff_compute *compute);

    /* required: the channel block of an activation with `channels` channels inside the net, of the
     * input images, and of a linear layer's output. */
    int (*channel_block)(const ff_compute *compute, int channels);
    int (*input_block)(const ff_compute *compute, int channels);
    int (*row_block)(const ff_compute *compute, int channels);
    /* Optional: input_block may depend on the convolutions that read the images. This entry chooses
     * it from all of them, before any is made, until the next call. count 0: other layers read the
     * images, too, and input_block is one that every entry accepts. The shapes' input.block is
     * ignored. May plan convolutions, and time them. */
    ff_status (*choose_input_block)(ff_compute *compute, const ff_conv_shape *shapes, int count,
                                    ff_error *error);

    /* required. `sibling` (or NULL) is a convolution with the same kernel, channels, groups, stride
     * and pad but another batch. The new convolution must accept the sibling's held weights
     * unchanged. */
    ff_status (*conv_create)(ff_compute *compute, const ff_conv_shape *shape,
                             const ff_conv *sibling, ff_conv **conv, ff_error *error);
    void (*conv_destroy)(ff_compute *compute, ff_conv *conv);
    /* Optional; called when all convolutions of a plan are made: frees the memory used to choose
     * their algorithms. */
    void (*settle)(ff_compute *compute);
    /* required: convert between torch's [out][in / groups][kernel][kernel] and the held order; host
     * memory. */
    void (*conv_import)(const ff_conv *conv, const float *oihw, float *held);
    void (*conv_export)(const ff_conv *conv, const float *held, float *oihw);
    /* required. bias and dbias: [padded output channels], NULL if the shape has no bias; the bias
     * has the dtype of weights. dw is NULL if the shape is frozen, and only then. */
    void (*conv_forward)(ff_compute *compute, ff_conv *conv, const void *x, const void *w,
                         const void *bias, void *y, void *scratch);
    /* conv_forward with the granted fusions, for convolutions without a bias. fold: the norm before
     * the convolution, in place of x; NULL if not `folded`. The sums of y and y * y over (n, h, w):
     * [2][padded output channels]; not NULL if `statistics`. */
    void (*conv_forward_fused)(ff_compute *compute, ff_conv *conv, const void *x,
                               const ff_fold *fold, const void *w, void *y, float *sums,
                               void *scratch);
    void (*conv_backward_data)(ff_compute *compute, ff_conv *conv, const void *dy, const void *w,
                               void *dx, void *scratch);
    void (*conv_backward_weights)(ff_compute *compute, ff_conv *conv, const void *x, const void *dy,
                                  void *dw, float *dbias, void *scratch);

    /* Required with FF_FUSE_NORM_CONV and FF_FUSE_NORM_DEPTHWISE, for `folded` convolutions,
     * without a bias. fold_norm: norm_train (norm_evaluate) without y, then what the convolution
     * reads: scale and shift, or mean and inv_std; scratch: norm_scratch. fold_backward: dw, the
     * gradient g of x after the ReLU's mask, dgamma, dbeta and factors. fold_finish: the norm's dx
     * from g; dx may be g. NULL = fold_backward has written dx in place of g. */
    void (*fold_norm)(ff_compute *compute, const ff_fold *fold, bool training, float *scratch);
    void (*fold_backward)(ff_compute *compute, ff_conv *conv, const ff_fold *fold, const void *w,
                          const void *dy, void *g, void *dw, void *scratch);
    void (*fold_finish)(ff_compute *compute, const ff_fold *fold, const void *g, void *dx);

    /* required; norm_scratch: the number of floats that the norm entries need in `scratch`. */
    size_t (*norm_scratch)(const ff_compute *compute, const ff_tensor *shape);
    /* Bytes of ff_norm.mask, for a ReLU after an addition: a few bits replace reading all of y.
     * NULL = the table reads y. */
    size_t (*norm_mask)(const ff_compute *compute, const ff_tensor *shape);
    void (*norm_train)(ff_compute *compute, const ff_norm *norm, float *scratch);
    void (*norm_evaluate)(ff_compute *compute, const ff_norm *norm, float *scratch);
    void (*norm_backward)(ff_compute *compute, const ff_norm_backward *norm, float *scratch);

    /* required. index, for max only: [ff_tensor_count(output)] bytes, row * kernel_w + column of
     * the largest value within its window; forward writes it if not NULL, backward reads it. */
    void (*pool_forward)(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                         uint8_t *index);
    void (*pool_backward)(ff_compute *compute, const ff_pool *pool, const void *dy,
                          const uint8_t *index, void *dx);
    /* With FF_FUSE_POOL_STATISTICS: pool_forward, and norm's batch and running statistics of y;
     * norm->x and norm->y are ignored. scratch: norm_scratch. */
    void (*pool_norm)(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                      uint8_t *index, const ff_norm *norm, float *scratch);

    /* required; linear_scratch: the bytes that linear_backward needs in `scratch`; NULL = none.
     * bias, dbias: [padded outputs] or NULL. dw is NULL if it is not trained. dx may be NULL. */
    size_t (*linear_scratch)(const ff_compute *compute, const ff_linear *linear);
    void (*linear_forward)(ff_compute *compute, const ff_linear *linear, const void *x,
                           const void *w, const float *bias, void *y);
    void (*linear_backward)(ff_compute *compute, const ff_linear *linear, const void *x,
                            const void *w, const void *dy, void *dx, void *dw, float *dbias,
                            void *scratch);

    /* required. y may be x; dx may be dy. seen: y if ff_activation_sees_output, else x. */
    void (*activation_forward)(ff_compute *compute, ff_activation activation, size_t count,
                               const void *x, void *y);
    void (*activation_backward)(ff_compute *compute, ff_activation activation, size_t count,
                                const void *seen, const void *dy, void *dx);
    /* With FF_FUSE_BIAS_ACTIVATION: activation_backward, and dbias: [padded channels], the sums of
     * dx over the pixels. dx NULL: dx is not written. scratch: norm_scratch. */
    void (*activation_bias_backward)(ff_compute *compute, ff_activation activation,
                                     const ff_tensor *shape, const void *seen, const void *dy,
                                     void *dx, float *dbias, float *scratch);
    /* required. `to` may be a or b; y may be x. */
    void (*add)(ff_compute *compute, size_t count, const void *a, const void *b, void *to);
    void (*dropout)(ff_compute *compute, const ff_dropout *dropout, const void *x, void *y);

    /* required; loss_scratch: bytes of ff_loss.scratch. If a label is bad, other results are
     * meaningless. */
    size_t (*loss_scratch)(const ff_compute *compute, int n, int stride);
    void (*loss)(ff_compute *compute, const ff_loss *loss);

    /* required: test-time views (plan_views.c). weigh: to = (first ? 0 : to) + weight * x, f32
     * logits. */
    void (*view)(ff_compute *compute, const ff_image_view *view, const void *x, void *y);
    void (*weigh)(ff_compute *compute, size_t count, float weight, bool first, const float *x,
                  float *to);

    /* required: to = scale * from, in f32, rounded once to nearest even, between f32, f16 and bf16.
     * For working weights from f32 masters, and for sums that are sent to other ranks. */
    void (*cast)(ff_compute *compute, size_t count, float scale, const void *from,
                 ff_dtype from_dtype, void *to, ff_dtype to_dtype);

    /* required: whole updates (update.h), prepared once. update_create copies `spec`, except for
     * the control and the segments' memory. update_run enqueues the check, the update and the
     * advance of the control, without the host. */
    ff_status (*update_create)(ff_compute *compute, const ff_update_spec *spec,
                               ff_prepared_update **update, ff_error *error);
    void (*update_destroy)(ff_compute *compute, ff_prepared_update *update);
    void (*update_run)(ff_compute *compute, ff_prepared_update *update, ff_outcome *ring,
                       uint32_t ring_size);
    /* required if a step is more than one batch: several micro-batches, or ranks. A micro-batch's
     * gradients are of a mean over its samples that count. sum_gradients adds them, weighted by the
     * number of those samples; the update divides by the samples of the whole batch. outcome_add
     * then adds the micro-batch's outcome, in the ring, to the step's; `first`: the first of a
     * step. outcome_join makes the step's outcome from the outcomes of `count` ranks. */
    void (*sum_gradients)(ff_compute *compute, const ff_gradient_sum *sum);
    void (*outcome_add)(ff_compute *compute, ff_prepared_update *update, bool first,
                        ff_outcome *ring, uint32_t ring_size);
    void (*outcome_join)(ff_compute *compute, ff_prepared_update *update, const ff_outcome *ranks,
                         int count, ff_outcome *ring, uint32_t ring_size);
} ff_compute_ops;

/* Parts of a training step, marked before their work is enqueued, with the number of the plan's
 * operation (plan.h). Only the CUDA table marks parts of the update. */
typedef enum ff_mark {
    FF_MARK_FORWARD,
    FF_MARK_LOSS,
    FF_MARK_BACKWARD,
    FF_MARK_CHECK,   /* of the gradients */
    FF_MARK_UPDATE,  /* by the optimizer of rule `op` */
    FF_MARK_ADVANCE, /* of the control */
} ff_mark;

/* Called at each mark, to count or to time the work (cost.h, profile.h). */
typedef struct ff_compute_watch {
    void (*begins)(void *context, ff_mark mark, int op);
    void *context;
} ff_compute_watch;

/* The ranks whose batch norms share statistics: ff_norm.ranks. */
typedef struct ff_compute_ranks {
    int count; /* 0: each rank has its own statistics */
    /* Enqueues an all-gather in the compute's stream: copies the `bytes` bytes at `own` of every
     * rank, in the ranks' order, to `all`. A failure sticks in the compute. */
    void (*gather)(void *context, const void *own, void *all, uint64_t bytes);
    void *context;
} ff_compute_ranks;

/* Every implementation's own struct begins with ff_compute. ff_compute_begin fills it. */
struct ff_compute {
    const ff_compute_ops *ops;
    int threads;
    ff_precision precision;
    ff_dtype dtype;       /* of activations: FF_F32, FF_F16, FF_BF16 */
    size_t element_bytes; /* of one element */
    bool deterministic;
    unsigned fusions;     /* FF_FUSE_... that pay off here */
    ff_device *device;    /* of all memory passed to entries */
    ff_stream *stream;    /* in which entries run; the compute's own */
    ff_device *owned;     /* the device, if the compute made it; else NULL */
    void *staging;        /* pinned, for ff_compute_write and _read; NULL on unified devices */
    ff_error failure;     /* the first one; failure.status FF_OK = no failure yet */
    char description[96]; /* "onednn 2.6.3, avx512_core" */
    size_t update_bytes;  /* scratch of the prepared updates, if the table counts it */
    /* Resident memory of a process that trains with this table, in addition to tensors and mapped
     * sets: code, thread stacks, and libraries' memory. 0 = not measured. */
    uint64_t program_bytes;
    /* Called at the marks of a step; NULL = not called. */
    const ff_compute_watch *watch;
    ff_compute_ranks ranks; /* set by the owner */
};

/* The implementations of this build, the fastest first; NULL past the last. They have only `name`,
 * `allows` and `open`; the opened compute has the whole table. */
const ff_compute_ops *ff_compute_implementation(int index);

/* FF_USAGE if an implementation, by name (NULL = the fastest), does not compute in this precision
 * on this processor: the message states why. The message for an unknown name lists the names of
 * this build. */
FF_MUST_USE ff_status ff_compute_allows(const char *name, ff_precision precision, ff_error *error);

/* Opens an implementation by name; NULL = the fastest. The compute has options->threads threads, or
 * fewer if OpenMP grants fewer. Fails as ff_compute_allows. */
FF_MUST_USE ff_status ff_compute_open(ff_compute **compute, const char *name,
                                      const ff_compute_options *options, ff_error *error);
/* NULL is accepted. Destroy convolutions and release memory first. */
void ff_compute_close(ff_compute **compute);

/* Call once before a series of entries: makes the device current in the calling thread and sets its
 * number of OpenMP threads to the compute's. */
void ff_compute_enter(ff_compute *compute);
/* FF_OK, or the first failure of an entry, again at every later call. */
FF_MUST_USE ff_status ff_compute_check(const ff_compute *compute, ff_error *error);
/* Clears the failure, for a caller that can do without the failed call. Nothing may have been
 * enqueued since the failure. */
void ff_compute_forgive(ff_compute *compute);
/* Waits until all work enqueued so far is done; then as ff_compute_check. */
FF_MUST_USE ff_status ff_compute_wait(ff_compute *compute, ff_error *error);

/* Memory of the compute's device, zeroed (in its stream), aligned to at least 256 bytes. `what`
 * names it in an error message. Release the memory after the work that uses it is done; NULL is
 * accepted. */
FF_MUST_USE ff_status ff_compute_allocate(ff_compute *compute, void *memory_pointer, uint64_t bytes,
                                          const char *what, ff_error *error);
void ff_compute_release(ff_compute *compute, void *memory);
/* Copies in the stream, both on the device; failure sticks. */
void ff_compute_copy(ff_compute *compute, void *to, const void *from, uint64_t bytes);
/* From host memory to the device, and back. Both wait for all earlier work and for the copy.
 * Failure sticks; memory that should have been read is then zero. */
void ff_compute_write(ff_compute *compute, void *to, const void *from, uint64_t bytes);
void ff_compute_read(ff_compute *compute, void *to, const void *from, uint64_t bytes);

/* ---- for implementations ---- */

/* Fills the common part: precision, device (its own if options->device is NULL), stream. On failure
 * the caller frees `compute`; otherwise it calls ff_compute_end before it frees `compute`. */
FF_MUST_USE ff_status ff_compute_begin(ff_compute *compute, const ff_compute_ops *ops,
                                       const ff_compute_options *options, ff_error *error);
void ff_compute_end(ff_compute *compute);

/* Where an entry reports an error: the compute's `failure` for the first error, then NULL. Used as
 * in ff_fail(ff_compute_error(compute), FF_FAILED, "..."). */
static inline ff_error *ff_compute_error(ff_compute *compute) {
    return compute->failure.status == FF_OK ? &compute->failure : NULL;
}

/* Gathers what all ranks send about the norm's batch into norm->ranks.all. */
static inline void ff_compute_gather(const ff_compute *compute, const ff_norm *norm) {
    const uint64_t bytes = ff_norm_told(norm) * sizeof *norm->ranks.own;
    compute->ranks.gather(compute->ranks.context, norm->ranks.own, norm->ranks.all, bytes);
}

/* The work of this part is enqueued next. */
static inline void ff_compute_mark(const ff_compute *compute, ff_mark mark, int op) {
    if (compute->watch) compute->watch->begins(compute->watch->context, mark, op);
}

#endif
