/* From options to a run: opens the sets, checks them, fills in what the command line left out, and
 * builds the model, its plans, the loaders and the schedule. Whatever a run can be refused for is
 * refused here, before the first step. */
#ifndef FF_TRAIN_RECIPE_H
#define FF_TRAIN_RECIPE_H

#include "loader/loader.h"
#include "train/model.h"
#include "train/recipe_table.h"
#include "train/splits.h"

/* As on the command line. A negative number or NULL: the default, which the recipe chooses. */
typedef struct ff_recipe_options {
    const char *data, *val, *label;
    ff_verify verify;

    const char *recipe; /* a row of recipe_table.h; NULL = the model's */
    const char *model;  /* NULL = the recipe's */
    ff_stem stem;
    const char *compute;           /* NULL or "auto" = the fastest */
    int64_t threads;               /* 0 = all CPUs */
    const ff_model_device *device; /* NULL = the CPU; outlives the recipe */
    ff_precision precision;
    bool deterministic;

    int64_t epochs;
    int64_t batch;
    ff_last_batch last_batch;
    int schedule; /* ff_schedule_kind */
    double learning_rate, warmup_epochs;
    double momentum, weight_decay;
    bool nesterov, no_nesterov; /* at most one; none = the model's default */
    double label_smoothing, dropout;
    int64_t views;

    ff_order_kind order;
    const char *augment;
    int64_t crop;       /* 0 = the whole sample */
    int64_t val_resize; /* 0 = chosen */
    int64_t workers;
    int64_t seed;
} ff_recipe_options;

ff_recipe_options ff_recipe_default_options(void);

/* How a group of parameters is updated in this run. */
typedef struct ff_recipe_update {
    const char *names;
    ff_rule rule;
    ff_sgd sgd; /* its learning_rate is the peak */
    ff_schedule schedule;
} ff_recipe_update;

/* Everything a run uses, resolved. Read-only but for the objects it points to. */
typedef struct ff_recipe {
    ff_splits splits;
    uint64_t train_count, val_count; /* samples; 0 without validation */

    const char *model_name;
    const ff_model_device *device; /* NULL = the CPU */
    ff_model *model;
    ff_plan *train_plan; /* of `batch` samples */
    ff_plan *last_plan;  /* of the shorter last batch, with --last-batch keep; else NULL */
    ff_plan *val_plan;   /* of `val_batch` samples; NULL without validation */
    ff_loader *train_loader, *val_loader;
    ff_loader_options train_input; /* of train_loader */

    int64_t batch, batch_asked; /* they differ where the set is smaller than a batch */
    int64_t last_count;         /* samples of last_plan; 0 = none */
    int64_t dropped;            /* samples an epoch leaves out */
    int64_t val_batch;
    uint32_t epochs;
    uint64_t batches; /* an epoch */

    const char *recipe_name; /* NULL = of no name */
    int group_count;         /* at least 1 */
    ff_recipe_update groups[FF_RECIPE_GROUPS];
    double label_smoothing, dropout;
    bool summed_loss;
    int views; /* of each sample in evaluation */

    ff_augment_spec augment;
    char augment_text[FF_AUGMENT_TEXT_BYTES];
    bool augment_chosen; /* by the recipe */
    ff_order_kind order;
    ff_verify verify;
    int workers;
    uint64_t seed;
} ff_recipe;

/* `options` and its strings outlive the recipe. FF_USAGE, FF_BAD_DATA, FF_IO, FF_NO_MEMORY with one
 * sentence; then *recipe = NULL. */
FF_MUST_USE ff_status ff_recipe_create(ff_recipe **recipe, const ff_recipe_options *options,
                                       ff_error *error);
/* What step `step` (from 0) updates by: steps[recipe->group_count]. */
void ff_recipe_steps(const ff_recipe *recipe, uint64_t step, ff_sgd *steps);
/* Steps of the whole run. */
static inline uint64_t ff_recipe_total_steps(const ff_recipe *recipe) {
    return recipe->epochs * recipe->batches;
}

/* NULL is accepted. */
void ff_recipe_destroy(ff_recipe **recipe);

#endif
