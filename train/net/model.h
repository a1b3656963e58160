/* Room train/net, floor 11: nets: layers, parameters, and the plan by which they are computed.
 *
 * models/ builds a graph from the layers of graph.h, one net per file. ops/ has each layer's
 * shapes, forward and backward, one layer per file. store.c holds the parameters in one block per
 * role (initial.c draws them, groups.c divides them for optimizers, average.c averages them,
 * whitening.c sets one of them from images). plan.c makes a graph ready for one batch size:
 * plan_fuse.c joins layers, plan_memory.c lays out memory, plan_run.c runs. This header is what the
 * rooms above use.
 *
 * May include format, loader/device, loader/host, loader/sequence, train/compute.
 *
 * A model ready to train: its graph, parameters and plans. Trainers, evaluation and checkpoints use
 * this header; graph.h and compute.h are below it.
 *
 * Life: ff_model_create builds the graph, plans it for `batch` (shapes, memory, algorithms) and
 * draws the initial parameters, so that every error of a net is found before the first step.
 * ff_model_plan makes further plans of the same parameters for other batch sizes (the evaluation
 * batch, a last smaller batch), ff_model_plan_with also for other sizes of images. Steps allocate
 * nothing.
 *
 * Sameness: the same build, instruction set, thread count, options and batches produce the same
 * parameters bit for bit. Initialisation depends on (seed, parameter) only, so it is also equal
 * between thread counts and compute implementations.
 *
 * Thread rule: a model and its plans belong to one thread at a time (they run on `threads` OpenMP
 * threads inside); different models are independent. */
#ifndef FF_TRAIN_MODEL_H
#define FF_TRAIN_MODEL_H

#include "format/base/status.h"
#include "format/disk/dtype.h"
#include "train/compute/arguments.h"
#include "train/compute/optimizers/optimizers.h"
#include "train/compute/precision.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ff_model ff_model;
typedef struct ff_plan ff_plan;

/* The form of a net: for small images or for large ones. In a residual net the first layers differ:
 * 3x3 stride 1, or 7x7 stride 2 and a 3x3 stride 2 max pool. In a vgg the last layers differ: the
 * mean over pixels and a linear layer, or torchvision's classifier over 7x7 pixels. AUTO = CIFAR
 * for inputs of at most 64 pixels on their longer side. Nets with one stem only (smallnet) accept
 * AUTO and refuse the others. */
typedef enum ff_stem { FF_STEM_AUTO, FF_STEM_CIFAR, FF_STEM_IMAGENET } ff_stem;

/* The rows of a micro-batch over all ranks, and the number of them before this rank's rows; rows 0:
 * this rank has all rows. */
typedef struct ff_batch_share {
    uint64_t rows, first;
} ff_batch_share;

typedef struct ff_model_options {
    const char *name; /* one of ff_model_name(0..): "resnet18" */
    ff_stem stem;
    int channels, height, width;   /* of a sample as it enters the net (after crops) */
    int classes;                   /* at least 1 */
    int batch;                     /* samples of a training step */
    ff_batch_share share;          /* the place of these samples in a micro-batch of all ranks */
    int norm_ranks;                /* ranks whose batch norms share statistics; 0 = not shared */
    int train_height, train_width; /* of the training plan's images; 0 = height and width */
    int sizes;                     /* number of sizes of images that plans will have; 0 = 1 */
    int threads;                   /* 0 = ff_cpu_count() */
    uint64_t seed;                 /* of the initial parameters and of dropout */
    bool loaded;                   /* parameters are 0 until they are loaded, and are not drawn */
    ff_loss_form loss;             /* of training; evaluation has cross-entropy */
    double label_smoothing;        /* in [0, 1); of the training loss */
    const float *class_weights; /* [classes] of the training loss, as in ff_loss; copied; NULL = all
                                   1 */
    bool summed_loss;           /* gradients are of the sum over a batch, not of the mean */
    /* A step is one micro-batch of several ranks: f32 gradients are of the sum over its samples, so
     * they already are the store's sums (ff_store_reserve_sums), and no pass computes the sums. */
    bool sums_in_place;
    /* A list as in ff_group.names. Batch norms whose trained parameters all match it hold their
     * running statistics in training plans that do not train these parameters, as after torch's
     * eval() on these modules. NULL = no such norms. */
    const char *held_norms;
    double dropout;      /* in [0, 1), for nets with dropout; negative = the net's default */
    const char *compute; /* NULL = the fastest of this build; "onednn", "reference" */
    const struct ff_model_device *device; /* NULL = the CPU; else `compute` is ignored */
    struct ff_device *memory; /* of the CPU's compute, must outlive it; NULL = its own */
    ff_precision precision;   /* of the CPU: ff_compute_allows */
    bool deterministic;       /* as in ff_compute_options */
} ff_model_options;

/* The device of a model that does not compute on the CPU: a compute table, its device (the
 * caller's; must outlive the model) and the table's options. */
typedef struct ff_model_device {
    const char *name; /* "NVIDIA H200": for reports */
    const struct ff_compute_ops *ops;
    struct ff_device *device;
    const struct ff_cuda_options *cuda;
} ff_model_device;

/* Names of the models, sorted as listed in help; NULL past the last. */
const char *ff_model_name(int index);

/* Refuses with one error message: an unknown name (listing the known ones), a shape that becomes
 * empty (naming the layer), a batch norm over one value per channel, sizes that exceed memory. On
 * failure *model = NULL. */
FF_MUST_USE ff_status ff_model_create(ff_model **model, const ff_model_options *options,
                                      ff_error *error);
/* Destroys its plans too. NULL is accepted. */
void ff_model_destroy(ff_model **model);

/* ---- properties ---- */

/* "onednn 2.6.3, avx512_core" or "reference loops": for reports, and compared when a run resumes.
 */
const char *ff_model_compute_name(const ff_model *model);
/* The stem that AUTO became; AUTO for a net with one form only. */
ff_stem ff_model_stem(const ff_model *model);
int ff_model_threads(const ff_model *model);
/* The size of a sample as it enters the net. */
void ff_model_input_size(const ff_model *model, uint32_t *height, uint32_t *width);
/* Multiply-accumulates of one sample's forward pass (convolutions and linear layers). */
double ff_model_macs(const ff_model *model);

/* Memory, one block per role, for --dry-run. */
typedef enum ff_role {
    FF_ROLE_PARAMETERS,  /* trained values, 16-bit working copies, and averages of both */
    FF_ROLE_GRADIENTS,   /* of parameters, one block; and their sums over micro-batches */
    FF_ROLE_STATE,       /* of the optimizers: each block of ff_store.state */
    FF_ROLE_BUFFERS,     /* running statistics of batch norms, and other buffers */
    FF_ROLE_ACTIVATIONS, /* of the largest plan */
    FF_ROLE_SCRATCH, /* gradients of activations, workspaces of algorithms; of the largest plan */
    FF_ROLE_COUNT
} ff_role;
const char *ff_role_name(ff_role role);
uint64_t ff_model_bytes(const ff_model *model, ff_role role);

/* ---- parameters and buffers, by torchvision's names ---- */

typedef struct ff_parameter {
    const char *name; /* "layer1.0.conv1.weight"; valid as long as the model */
    ff_dtype dtype;   /* FF_F32; FF_I64 for num_batches_tracked */
    int rank;         /* 0 to 4 */
    int64_t shape[4]; /* torch's: OIHW for convolutions, [out, in] for linear layers */
    uint64_t count;   /* elements */
    bool trained;     /* has a gradient and state; false for running statistics */
} ff_parameter;

/* In the order of torch's state_dict. */
int ff_model_parameter_count(const ff_model *model);
const ff_parameter *ff_model_parameter(const ff_model *model, int index);
/* Bytes of the largest parameter. */
static inline uint64_t ff_model_largest_bytes(const ff_model *model) {
    uint64_t most = 0;
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        const uint64_t bytes = p->count * ff_dtype_bytes(p->dtype);
        if (bytes > most) most = bytes;
    }
    return most;
}
/* -1 if there is no such parameter. */
int ff_model_find(const ff_model *model, const char *name);
/* The layer of the logits: "fc"; its parameters are named after it. */
const char *ff_model_head(const ff_model *model);
/* The parameter (filters) that whitening.h sets from the training images; -1 if the net does not
 * have one. */
int ff_model_whitening(const ff_model *model);

/* Copies a parameter out (in): `count` elements of its dtype in torch's layout, whatever its held
 * layout. Every parameter has a VALUE, and an AVERAGE if the store keeps averages (average.h). Only
 * trained parameters have a GRADIENT (of the last step) and the optimizer's state: ff_model_states
 * blocks (more: the caller's bug). The copies wait for the device; a failure sticks, and
 * ff_model_check and the next step return it. */
typedef enum ff_parameter_part {
    FF_PART_VALUE,
    FF_PART_GRADIENT,
    FF_PART_MOMENTUM, /* the optimizer's first block of state, then its others */
    FF_PART_AVERAGE = FF_PART_MOMENTUM + FF_STATES
} ff_parameter_part;
void ff_model_get(const ff_model *model, int index, ff_parameter_part part, void *to);
void ff_model_set(ff_model *model, int index, ff_parameter_part part, const void *from);
FF_MUST_USE ff_status ff_model_check(const ff_model *model, ff_error *error);

/* ---- groups ---- */

/* Divides the trained parameters into groups: each belongs to the first one that it matches. By
 * default all are one SGD group. Call before the first step: the call also allocates the state that
 * the groups' optimizers need. FF_USAGE names a parameter that no group matches, or that a rule
 * cannot update. */
FF_MUST_USE ff_status ff_model_set_groups(ff_model *model, const ff_group *groups, int count,
                                          ff_error *error);
/* The group of a parameter; -1 = not trained. */
int ff_model_group(const ff_model *model, int parameter);
/* The optimizer of a parameter; NULL = not trained. */
const ff_optimizer *ff_model_optimizer(const ff_model *model, int parameter);
/* Blocks of optimizer state: the number of the group that has the most. */
int ff_model_states(const ff_model *model);
/* Whether an average of the parameters is kept (average.h). */
bool ff_model_averages(const ff_model *model);

/* ---- steps ---- */

/* A batch, owned by the caller; not kept after the call. */
typedef struct ff_batch {
    const void *images;   /* [batch] samples as the plan's input is laid out, 64-byte aligned */
    const void *labels;   /* [batch] classes; -1 = unlabeled: no loss, no gradient, not counted */
    ff_dtype label_dtype; /* FF_I64 or FF_I32 */
    const float *weights; /* [batch] 0 or 1 (0 = a padding slot, as if unlabeled); NULL = all 1 */
    const float *mix;     /* [batch] weight of the own label; the rest is sample n ^ 1's (ff_loss);
                             NULL = all 1; for training */
} ff_batch;

/* Plans the model for `batch` samples. `training` plans can train and evaluate; others only
 * evaluate, in much less memory. The model owns the plan. */
FF_MUST_USE ff_status ff_model_plan(ff_model *model, int batch, bool training, ff_plan **plan,
                                    ff_error *error);
typedef struct ff_plan_options {
    int batch;         /* samples */
    int height, width; /* of the images; 0 = the model's */
    bool training;
    /* [ff_model_parameter_count], or NULL: a training plan that computes neither the gradients of
     * some parameters nor anything needed only for them, for steps in which their learning rate is
     * 0. The updates have the same bits, unless a batch norm among these parameters was folded into
     * a convolution: then they agree within the rounding of activations. */
    const bool *without;
} ff_plan_options;

/* The same for these options. FF_USAGE if the net has other parameters for images of that size. */
FF_MUST_USE ff_status ff_model_plan_with(ff_model *model, const ff_plan_options *options,
                                         ff_plan **plan, ff_error *error);
/* The divisor of the gradients that the model's training plans compute: ff_loss.divisor. If batch
 * norms share the statistics of several ranks, these ranks' losses have one divisor, too: the rows
 * of all of them. */
double ff_model_loss_divisor(const ff_model *model);
/* The plan made by ff_model_create: options.batch samples, training. */
ff_plan *ff_model_training_plan(ff_model *model);
/* Evaluation classifies the mean of the logits of several views of each sample: 1 = the sample
 * itself; 2 = also its mirror image, of equal weight; 6 = these two with weight 1/4 each, and the
 * sample shifted by one pixel along the diagonal, in both directions, with reflected edges, plain
 * and mirrored, with weight 1/8 each (K. Jordan 2024, arXiv 2404.00498). FF_USAGE for other
 * numbers, or for images not larger than a shift. Call before the first evaluation. */
FF_MUST_USE ff_status ff_plan_set_views(ff_plan *plan, int views, ff_error *error);

/* The model's parts, for step.c and evaluation. */
struct ff_compute *ff_model_compute(ff_model *model);
struct ff_store *ff_model_store(ff_model *model);
int ff_plan_batch(const ff_plan *plan);

#endif
