/* Room train/trainer, floor 14: a run made from its options, complete before the first step.
 *
 * trainer.c opens the sets and resolves missing options, updates.c the optimizers and learning
 * rates of groups (groups.c is their option), batches.c how batches are cut among ranks and
 * micro-batches. parts.c then builds the model, its plans, the feeds and the step. needs.c counts
 * the memory that they take, before they are built on a real device, and chooses --batch auto;
 * promise.c asks the disk. origin.c records where a run's numbers come from. warm_up.c makes the
 * first steps, run_step.c each further one.
 *
 * May include format, loader/device, loader/host, loader/rates, train/checkpoint, train/comm/job,
 * train/compute, train/evaluate, train/machine, train/net, train/recipes, train/sets, train/step.
 *
 * A run, assembled from options: opens and checks the sets, fills in defaults, and builds the
 * model, its plans, the loaders and the schedule. Every reason to refuse a run is found here,
 * before the first step. */
#ifndef FF_TRAIN_TRAINER_H
#define FF_TRAIN_TRAINER_H

#include "loader/host/loader.h"
#include "train/comm/job/job.h"
#include "train/evaluate/tally.h"
#include "train/machine/machine.h"
#include "train/machine/planned_device.h"
#include "train/net/model.h"
#include "train/recipes/loss_form.h"
#include "train/recipes/schedule.h"
#include "train/recipes/table.h"
#include "train/sets/sizes.h"
#include "train/sets/splits.h"
#include "train/step/feed.h"
#include "train/step/step.h"
#include "train/trainer/device_memory.h"
#include "train/trainer/needs.h"
#include "train/trainer/promise.h"

/* Steps whose rates rise from one to the other by the same factor each: of lr-find. */
typedef struct ff_trainer_sweep {
    int64_t steps; /* the schedule's; 0 = none */
    double from, to;
} ff_trainer_sweep;

/* As on the command line, whose table has the defaults (ff_settings_default). A negative number or
 * NULL: the recipe's default. */
typedef struct ff_trainer_options {
    const char *data, *val, *label;
    const char *subset, *fold, *sample_weights, *shares; /* as in ff_splits_options */
    bool no_replacement;                                 /* the same */
    int shares_of;                                       /* 1: of each batch */
    int64_t samples_per_epoch, repeats;                  /* as in ff_loader_options */
    ff_verify verify;
    const char *began_data, *began_val; /* as in ff_splits_options */

    const char *recipe; /* a row of recipes/table.h; NULL = the model's */
    const char *model;  /* NULL = the recipe's */
    ff_stem stem;
    const char *compute;    /* NULL or "auto" = the fastest */
    const char *device;     /* of machine.h; NULL = the CPU */
    const char *plan_cache; /* folder of a GPU's plans; NULL = the user's cache */
    double tune_seconds;    /* limit for timing a GPU's engines; 0 = no timing */
    bool no_fold;           /* norms are not folded into the convolution after them */
    ff_tuning *tuning; /* receives the results of tuning; must outlive the trainer; NULL = none */
    const ff_model_device *planned; /* for --dry-run: an absent device; must outlive the trainer */
    const struct ff_loader_kernels *planned_kernels; /* the loader's on it */
    bool counts;         /* memory is counted, not allocated: nothing can run */
    bool measures_disk;  /* before batches are made: ff_trainer.promise */
    bool checkpoints;    /* the run keeps some: their copy counts as host memory */
    uint64_t first_step; /* the steps that a resumed run has done */
    const char *weights; /* file or folder (weights.h); NULL = initial values */
    bool any_normalization;
    /* NULL and auto = f16 on a GPU, f32 on the CPU: auto is resolved before (precision_choice.h).
     * precision_reason: of auto's choice, a clause; else NULL. */
    const char *precision, *precision_reason;
    ff_placement placement;
    double loss_scale; /* negative = chosen: with f16 activations the recipe's, or dynamic; else
                          none */
    bool no_graph, no_warm_up, deterministic, quiet, verbose;
    int64_t threads; /* 0 = all CPUs, shared with the job's other ranks on this machine */
    ff_job *job;     /* NULL = alone; must outlive the trainer */

    int64_t epochs;
    int64_t batch;      /* FF_BATCH_AUTO: the largest that fits */
    int64_t accumulate; /* micro-batches of a batch */
    bool reproducible;  /* the same bits for any number of ranks: ff_update_options.tree */
    int64_t parts;      /* with reproducible: ranks times micro-batches; 0 = as they are */
    ff_last_batch last_batch;
    const char *schedule; /* of schedule.h */
    double warmup_epochs;
    int64_t overfit;            /* batches to overfit (debug/overfit.h); 0 = none */
    ff_trainer_sweep sweep;     /* replaces schedule and epochs; groups follow in proportion */
    const char *optimizer;      /* of ff_optimizer_named */
    const char *freeze;         /* parameters that stay as they are, as ff_group.names */
    bool frozen_norms_train;    /* norms among them have batch statistics */
    bool frozen_norms_given;    /* either value is requested: there must be such norms */
    ff_hyper hyper;             /* the options' numbers */
    bool nesterov, no_nesterov; /* at most one; neither = the recipe's default */
    bool scale_lr;              /* multiplies the options' learning rates by the number of ranks, */
    bool scaled_lr, scaled_groups; /* except these, which a resumed run keeps */
    bool sync_bn;                  /* batch norms have the statistics of all ranks */
    ff_dtype reduce_dtype;         /* of gradients sent to other ranks: FF_F32, FF_F16 or FF_BF16 */
    const char *groups;            /* "NAMES:KEY=VALUE,...;...", as in trainer/updates.h */
    const char *no_decay;          /* as ff_group.names; "none" = all decay */
    double clip_norm;              /* 0 = none */
    double ema;                    /* decay of the average of the parameters; negative = none */
    const char *loss;              /* of loss_form.h; NULL = cross-entropy */
    double label_smoothing, dropout;
    const char *class_weights; /* of class_weights.h; NULL = all 1 */
    int64_t views;
    int64_t val_every; /* epochs; 0 = after the last one only */
    int64_t patience;  /* evaluations in a row without a better one; 0 = any number */

    ff_order_kind order;
    int64_t block, group, machines; /* as in ff_loader_options */
    uint64_t memory_bytes;          /* as in ff_loader_options */
    const char *augment;
    int64_t crop;       /* 0 = the whole sample */
    const char *sizes;  /* of sizes.h; NULL = one */
    int64_t val_resize; /* 0 = chosen */
    int64_t workers;
    int64_t seed;
} ff_trainer_options;

enum { FF_BATCH_AUTO = 0 };

/* How a group of parameters is updated in this run. */
typedef struct ff_trainer_update {
    const char *names, *within; /* as in ff_group */
    ff_rule rule;
    ff_hyper hyper; /* its learning_rate is the peak */
    ff_schedule schedule;
    bool frozen; /* never updated; costs no gradient */
} ff_trainer_update;

/* The most groups of a run. */
enum { FF_TRAINER_GROUPS = 64 };

/* The most steps of a run: its learning rates are a table. */
enum { FF_TRAINER_STEPS = 1 << 27 };
/* Dynamic loss scaling (torch's GradScaler), with f16 gradients: the initial scale, and the good
 * steps after which it doubles; a bad step halves it. */
#define FF_TRAINER_LOSS_SCALE 65536.0
enum { FF_TRAINER_SCALE_STEPS = 2000 };
/* In a job: the fewest bytes of gradients that are reduced together. */
enum { FF_TRAINER_BUCKET_BYTES = 4 << 20 };

/* The images of training from an epoch (from 0) on. */
typedef struct ff_trainer_size {
    uint32_t epoch, height, width;
    /* [settled][last]. last: for the smaller last batch, with --last-batch keep, else for `micro`
     * samples. settled: without the gradients of parameters whose learning rate is 0 from
     * settled_step on. NULL: there is no such step. Equal sizes share plans. */
    ff_plan *plans[2][2];
} ff_trainer_size;

/* Everything a run uses, resolved. Read-only, except for the objects it points to. */
typedef struct ff_trainer {
    ff_splits splits;
    uint64_t train_count, val_count; /* samples; 0 without validation */

    const char *model_name;
    ff_stem stem; /* as requested; AUTO: the weights' stem, if they show it (stem_of_weights) */
    bool stem_of_weights;
    const ff_model_device *device; /* NULL = the CPU; owned by the machine or by a planned device */
    ff_model *model;
    ff_plan *train_plan;             /* of `micro` samples of the largest size */
    ff_trainer_size sizes[FF_SIZES]; /* in the order of their epochs, the first from 0 on */
    int size_count;
    uint32_t size_late; /* the first epoch of --sizes after the run's end, from 0; 0 = none */
    uint64_t settled_step;
    ff_plan *val_plan; /* of `val_batch` samples; NULL without validation */
    ff_tally *tally;   /* the last evaluation's; NULL without validation */
    ff_machine *machine;
    /* Where memory is counted: the stand-in for the CPU, or for the GPU. NULL: the parts can run,
     * or the device is planned. */
    ff_device *counted;
    ff_planned_device *stand_in;
    ff_needs needs;
    ff_device_memory memory;
    ff_promise promise; /* with measures_disk; else nothing */
    ff_feed *train_feed, *val_feed;
    ff_loader_options train_input;        /* of train_feed */
    ff_loader_size input_sizes[FF_SIZES]; /* its sizes are `sizes` */
    ff_step *step;
    ff_precision precision;

    int64_t batch, batch_asked; /* smaller than requested if the set is smaller */
    const char *batch_reason;   /* the reason of FF_BATCH_AUTO's choice, a clause; else NULL */
    /* Samples of a micro-batch over all ranks: batch / accumulate. With --reproducible each rank
     * takes consecutive parts of the batch: samples of one rank's micro-batch. */
    int64_t micro_all;
    int64_t micro, first_row; /* this rank's samples, and the number of samples before them */
    int64_t accumulate;       /* micro-batches of a step, the epoch's last step may have fewer */
    int64_t last_count;       /* this rank's samples in the smaller last plans; 0 = none */
    bool keeps_last;          /* the epoch's last batch is smaller */
    int64_t dropped;          /* samples that an epoch leaves out */
    int64_t val_batch;
    uint32_t epochs;
    uint64_t batches; /* per epoch */

    const char *recipe_name; /* NULL = without a name */
    int group_count;         /* at least 1 */
    ff_trainer_update groups[FF_TRAINER_GROUPS];
    int main_group; /* whose learning rate is reported */
    ff_trainer_sweep sweep;
    char *groups_given; /* a copy of the option, which group names point into */
    char *groups_text;  /* the option, its rates multiplied by --scale-lr; NULL = none. Owned */
    double clip_norm;   /* 0 = gradients are not clipped */
    double ema_decay;   /* decay of the average of the parameters; negative = no average */
    ff_loss_form loss;  /* of training */
    double label_smoothing, dropout;
    float *class_weights; /* [splits.classes] of the loss; NULL = all 1. Owned */
    bool summed_loss;
    int views;         /* of each sample in evaluation */
    double loss_scale; /* 0 = none; the initial scale if it is dynamic */
    bool scale_moves;
    uint32_t val_every; /* epochs between evaluations; 0 = only after the last epoch */

    ff_augment_spec augment;
    char augment_text[FF_AUGMENT_TEXT_BYTES];
    bool augment_chosen; /* by the recipe */
    bool is_small;       /* samples enter the net with at most FF_RECIPE_SMALL pixels a side */
    bool pad_chosen;     /* 'crop' came without a number */
    ff_order_kind order;
    uint64_t block, group; /* of orders with blocks, the same on all ranks; else 0 */
    uint32_t machines;     /* of order node-block, the same on all ranks; else 0 */
    ff_verify verify;
    int workers;
    uint64_t seed;
    char *weights_text;                /* what --weights loaded; NULL = nothing. Owned */
    const ff_trainer_options *options; /* the trainer was made from */
} ff_trainer;

/* The options of a trainer that only counts: it measures nothing and allocates no batch or weight.
 */
ff_trainer_options ff_trainer_options_counting(const ff_trainer_options *options);
/* `options` and its strings must outlive the trainer. FF_USAGE, FF_BAD_DATA, FF_IO, FF_NO_MEMORY;
 * on failure *trainer = NULL. */
FF_MUST_USE ff_status ff_trainer_create(ff_trainer **trainer, const ff_trainer_options *options,
                                        ff_error *error);
/* Makes another step of the trainer's model (trainer->step learns). Without `learns` the rates are
 * 0 and the content of the batch is arbitrary: for timing. */
FF_MUST_USE ff_status ff_trainer_make_step(ff_trainer *trainer, const ff_trainer_options *options,
                                           bool learns, ff_step **step, ff_error *error);
/* How a step updates the trainer's groups, with these numbers and learning rates, which must
 * outlive the update: hypers[trainer->group_count], rates[trainer->group_count][steps]. */
ff_update_options ff_trainer_update_options(const ff_trainer *trainer, const ff_hyper *hypers,
                                            const double *rates, uint64_t steps);
/* The update settings of step `step` (from 0): steps[trainer->group_count]. */
void ff_trainer_steps(const ff_trainer *trainer, uint64_t step, ff_hyper *steps);
/* The size in an epoch (from 0). */
const ff_trainer_size *ff_trainer_size_in(const ff_trainer *trainer, uint64_t epoch);
/* The plan for a micro-batch of step `step` (from 0) with `count` samples of this rank; 0: any. */
ff_plan *ff_trainer_plan(const ff_trainer *trainer, uint64_t step, uint32_t count);
/* Makes the training feed again, to begin with the batches of step `step` (from 0): for a step that
 * is looked at after the run. The step that learns cannot be used afterwards. */
FF_MUST_USE ff_status ff_trainer_rewind(ff_trainer *trainer, uint64_t step, ff_error *error);
/* The options of a loader on the host whose first batch is the step's whole batch: the same images
 * as on any device, as f32 CHW. */
ff_loader_options ff_trainer_input(const ff_trainer *trainer, uint64_t step);
/* Samples of a step, over all ranks. */
static inline uint64_t ff_trainer_samples(const ff_trainer *trainer, uint64_t step) {
    const uint64_t batch = (uint64_t)trainer->batch;
    const uint64_t left = trainer->train_count - step % trainer->batches * batch;
    return left < batch ? left : batch;
}
/* Steps of the whole run. */
static inline uint64_t ff_trainer_total_steps(const ff_trainer *trainer) {
    return trainer->epochs * trainer->batches;
}

/* NULL is accepted. */
void ff_trainer_destroy(ff_trainer **trainer);

#endif
