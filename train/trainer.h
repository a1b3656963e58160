/* A run, assembled from options: opens the sets, checks them, fills in what the command line left
 * out, and builds the model, its plans, the loaders and the schedule. Whatever a run can be refused
 * for is refused here, before the first step. */
#ifndef FF_TRAIN_TRAINER_H
#define FF_TRAIN_TRAINER_H

#include "loader/loader.h"
#include "train/feed.h"
#include "train/machine.h"
#include "train/model.h"
#include "train/needs.h"
#include "train/planned_device.h"
#include "train/recipe_table.h"
#include "train/splits.h"
#include "train/step.h"

/* As on the command line. A negative number or NULL: the default, which the recipe chooses. */
typedef struct ff_trainer_options {
    const char *data, *val, *label;
    ff_verify verify;

    const char *recipe; /* a row of recipe_table.h; NULL = the model's */
    const char *model;  /* NULL = the recipe's */
    ff_stem stem;
    const char *compute;    /* NULL or "auto" = the fastest */
    const char *device;     /* of machine.h; NULL = the CPU */
    const char *plan_cache; /* folder of a GPU's plans; NULL = the user's cache */
    double tune_seconds;    /* that a GPU's engines may be timed; 0 = not at all */
    bool no_fold;           /* no norm is folded into the convolution after it */
    ff_tuning *tuning; /* gets what choosing them came to; outlives the trainer; NULL = nobody */
    const ff_model_device
        *planned; /* for --dry-run: a device that is not here; outlives the trainer */
    const struct ff_loader_kernels *planned_kernels; /* the loader's on it */
    bool counts;           /* memory is counted, not taken: nothing can run */
    const char *precision; /* NULL = f16 on a GPU, f32 on the CPU */
    ff_placement placement;
    double loss_scale; /* negative = chosen: where activations are f16 the recipe's, or one that
                          moves; else none */
    bool no_graph, no_warm_up, deterministic, quiet, verbose;
    int64_t threads; /* 0 = all CPUs */

    int64_t epochs;
    int64_t batch;
    ff_last_batch last_batch;
    int schedule; /* ff_schedule_kind */
    double learning_rate, warmup_epochs;
    double momentum, weight_decay;
    bool nesterov, no_nesterov; /* at most one; none = the model's default */
    double label_smoothing, dropout;
    int64_t views;
    int64_t val_every; /* epochs; 0 = after the last one only */

    ff_order_kind order;
    const char *augment;
    int64_t crop;       /* 0 = the whole sample */
    int64_t val_resize; /* 0 = chosen */
    int64_t workers;
    int64_t seed;
} ff_trainer_options;

ff_trainer_options ff_trainer_default_options(void);

/* How a group of parameters is updated in this run. */
typedef struct ff_trainer_update {
    const char *names;
    ff_rule rule;
    ff_sgd sgd; /* its learning_rate is the peak */
    ff_schedule schedule;
} ff_trainer_update;

/* Steps that a run may have: its learning rates are a table. */
enum { FF_TRAINER_STEPS = 1 << 27 };
/* Of losses whose gradients are f16: the scale begins here, doubles after as many good steps, and
 * is halved by a bad one (torch's GradScaler). */
#define FF_TRAINER_LOSS_SCALE 65536.0
enum { FF_TRAINER_SCALE_STEPS = 2000 };

/* Everything a run uses, resolved. Read-only but for the objects it points to. */
typedef struct ff_trainer {
    ff_splits splits;
    uint64_t train_count, val_count; /* samples; 0 without validation */

    const char *model_name;
    const ff_model_device *device; /* NULL = the CPU; the machine's, or a planned one */
    ff_model *model;
    ff_plan *train_plan; /* of `batch` samples */
    ff_plan *last_plan;  /* of the shorter last batch, with --last-batch keep; else NULL */
    /* The same without the gradients of parameters whose learning rate stays 0 from settled_step
     * on; NULL: there are none. */
    ff_plan *settled_plan, *settled_last_plan;
    uint64_t settled_step;
    ff_plan *val_plan; /* of `val_batch` samples; NULL without validation */
    ff_machine *machine;
    /* Of parts whose memory is counted: the CPU's place, or the GPU's. NULL: they can run, or the
     * device is planned. */
    ff_device *counted;
    ff_planned_device *stand_in;
    ff_needs needs;
    ff_feed *train_feed, *val_feed;
    ff_loader_options train_input; /* of train_feed */
    ff_step *step;
    ff_precision precision;

    int64_t batch, batch_asked; /* they differ where the set is smaller than a batch */
    int64_t last_count;         /* samples of last_plan; 0 = none */
    int64_t dropped;            /* samples an epoch leaves out */
    int64_t val_batch;
    uint32_t epochs;
    uint64_t batches; /* an epoch */

    const char *recipe_name; /* NULL = of no name */
    int group_count;         /* at least 1 */
    ff_trainer_update groups[FF_RECIPE_GROUPS];
    double label_smoothing, dropout;
    bool summed_loss;
    int views;         /* of each sample in evaluation */
    double loss_scale; /* 0 = none; where it moves, where it begins */
    bool scale_moves;
    uint32_t val_every; /* epochs between evaluations; the last one is always followed by one */

    ff_augment_spec augment;
    char augment_text[FF_AUGMENT_TEXT_BYTES];
    bool augment_chosen; /* by the recipe */
    bool is_small;       /* samples enter the net with at most FF_RECIPE_SMALL pixels a side */
    bool pad_chosen;     /* 'crop' came without a number */
    ff_order_kind order;
    ff_verify verify;
    int workers;
    uint64_t seed;
    const ff_trainer_options *options; /* that it was made of */
} ff_trainer;

/* `options` and its strings outlive the trainer. FF_USAGE, FF_BAD_DATA, FF_IO, FF_NO_MEMORY with
 * one sentence; then *trainer = NULL. */
FF_MUST_USE ff_status ff_trainer_create(ff_trainer **trainer, const ff_trainer_options *options,
                                        ff_error *error);
/* A step of the trainer's model; the trainer has one that learns. Without `learns` the rates are 0
 * and the batch is whatever lies there: for timing. */
FF_MUST_USE ff_status ff_trainer_make_step(ff_trainer *trainer, const ff_trainer_options *options,
                                           bool learns, ff_step **step, ff_error *error);
/* What step `step` (from 0) updates by: steps[trainer->group_count]. */
void ff_trainer_steps(const ff_trainer *trainer, uint64_t step, ff_sgd *steps);
/* The plan of step `step` (from 0), of `count` samples. */
ff_plan *ff_trainer_plan(const ff_trainer *trainer, uint64_t step, uint32_t count);
/* Steps of the whole run. */
static inline uint64_t ff_trainer_total_steps(const ff_trainer *trainer) {
    return trainer->epochs * trainer->batches;
}

/* NULL is accepted. */
void ff_trainer_destroy(ff_trainer **trainer);

#endif
