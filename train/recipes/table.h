/* Room train/recipes, floor 11: how a model is trained well by default.
 *
 * This header is the table of defaults, a row for each model or use. The files of options in this
 * folder (NAME.txt) are recipes that --recipe names; users may write their own. files.c finds them.
 * schedule.h computes the learning rate over a run, one formula per row; loss_form.h reads --loss.
 *
 * May include format, loader/augment, train/compute.
 *
 * Recipes: the defaults with which a model trains well, one row each. --recipe names a row; without
 * --recipe the model's first row is used. Pure. */
#ifndef FF_TRAIN_RECIPE_TABLE_H
#define FF_TRAIN_RECIPE_TABLE_H

#include "loader/augment/augment.h"
#include "train/compute/optimizers/optimizers.h"

#include <stdbool.h>

/* Parameters that are updated alike, with their own hyperparameters. */
typedef struct ff_recipe_group {
    const char *names; /* fnmatch(3) pattern; the first match counts */
    ff_rule rule;
    double learning_rate;
    double momentum;
    bool nesterov;
    double weight_decay;
    double epochs; /* the learning rate is 0 after these epochs; 0 = after the run */
} ff_recipe_group;

enum { FF_RECIPE_GROUPS = 4 };

typedef struct ff_recipe {
    const char *name;  /* NULL: the row for all other models */
    const char *model; /* its name; NULL = every model without a row of its own */
    int epochs;
    int batch;
    double learning_rate; /* at `batch` samples; scaled in proportion for others (P. Goyal et al.,
                             arXiv 1706.02677: the linear scaling rule) */
    double momentum;
    bool nesterov;
    double weight_decay;
    double label_smoothing;
    double warmup_epochs;
    const char *schedule;      /* as in schedule.h */
    const char *augment_small; /* --augment for images of at most FF_RECIPE_SMALL pixels a side */
    const char *augment;       /* for larger images */
    /* The loss is the sum over a batch, not its mean. Learning rates then do not depend on the
     * batch size, and the groups' weight decays are in proportion to it. */
    bool summed_loss;
    int views;           /* per sample in evaluation (ff_plan_set_views); 0 = 1 */
    double loss_scale;   /* for f16 gradients, fixed; 0 = dynamic */
    bool evaluates_once; /* --val-every 0: after the last epoch only */
    /* Groups with names; without any, all parameters are one group with the numbers above. */
    ff_recipe_group groups[FF_RECIPE_GROUPS];
} ff_recipe;

#define FF_RECIPE_SMALL FF_AUGMENT_SMALL

/* The first row of `model`, never NULL. */
const ff_recipe *ff_recipe_of(const char *model);
/* The row with this name, or NULL; the names, NULL past the last. */
const ff_recipe *ff_recipe_named(const char *recipe);
const char *ff_recipe_name(int index);

#endif
