/* From options to a run: opens the sets, checks them, fills in what the command line left out, and
 * builds the model, its plans, the loaders and the schedule. Whatever a run can be refused for is
 * refused here, before the first step. */
#ifndef FF_TRAIN_RECIPE_H
#define FF_TRAIN_RECIPE_H

#include "loader/loader.h"
#include "train/model.h"
#include "train/schedule.h"
#include "train/splits.h"

/* As on the command line. A negative number or NULL: the default, which the recipe chooses. */
typedef struct ff_recipe_options {
    const char *data, *val, *label;
    ff_verify verify;

    const char *model;
    ff_stem stem;
    const char *compute; /* NULL or "auto" = the fastest */
    int64_t threads;     /* 0 = all CPUs */

    int64_t epochs;
    int64_t batch;
    ff_last_batch last_batch;
    ff_schedule_kind schedule;
    double learning_rate, warmup_epochs;
    double momentum, weight_decay;
    bool nesterov, no_nesterov; /* at most one; none = the model's default */
    double label_smoothing, dropout;

    ff_order_kind order;
    const char *augment;
    int64_t crop;       /* 0 = the whole sample */
    int64_t val_resize; /* 0 = chosen */
    int64_t workers;
    int64_t seed;
} ff_recipe_options;

ff_recipe_options ff_recipe_default_options(void);

/* Everything a run uses, resolved. Read-only but for the objects it points to. */
typedef struct ff_recipe {
    ff_splits splits;
    uint64_t train_count, val_count; /* samples; 0 without validation */

    const char *model_name;
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

    ff_schedule schedule;
    ff_sgd sgd; /* its learning_rate is the peak; every step sets its own */
    double label_smoothing, dropout;

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
/* NULL is accepted. */
void ff_recipe_destroy(ff_recipe **recipe);

#endif
