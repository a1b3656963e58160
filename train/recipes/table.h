/* Room train/recipes, floor 8: how a model is trained well, where nothing else is asked.
 *
 * This header is the table of defaults, a row for each model or use. The files of options beside
 * it (NAME.txt) are recipes that --recipe names or that users write; files.c finds them.
 * schedule.h has the learning rate over a run, a formula a row.
 *
 * May include format, loader/augment, train/compute.
 *
 * Recipes: the defaults with which a model trains well, one row each. --recipe names a row; without
 * it the model's first row is used. Pure. */
#ifndef FF_TRAIN_RECIPE_TABLE_H
#define FF_TRAIN_RECIPE_TABLE_H

#include "loader/augment/augment.h"
#include "train/compute/optimizers/optimizers.h"

#include <stdbool.h>

/* Parameters that are updated alike, with their own numbers. */
typedef struct ff_recipe_group {
    const char *names; /* fnmatch(3) pattern; the first match counts */
    ff_rule rule;
    double learning_rate;
    double momentum;
    bool nesterov;
    double weight_decay;
    double epochs; /* the learning rate is 0 from then on; 0 = at the end of the run */
} ff_recipe_group;

enum { FF_RECIPE_GROUPS = 4 };

typedef struct ff_recipe {
    const char *name;  /* NULL: the row for all other models */
    const char *model; /* its name; NULL = every model without its own row */
    int epochs;
    int batch;
    double learning_rate; /* at `batch` samples; scaled in proportion for others (P. Goyal et al.,
                             arXiv 1706.02677: the linear scaling rule) */
    double momentum;
    bool nesterov;
    double weight_decay;
    double label_smoothing;
    double warmup_epochs;
    const char *schedule;      /* of schedule.h */
    const char *augment_small; /* --augment for images of at most FF_RECIPE_SMALL pixels a side */
    const char *augment;       /* and for larger ones */
    /* The loss is the sum over a batch, not its mean: learning rates do not depend on the batch
     * size, and the groups' weight decays are in proportion to it. */
    bool summed_loss;
    int views;           /* of each sample in evaluation (ff_plan_set_views); 0 = 1 */
    double loss_scale;   /* of f16 gradients, fixed; 0 = dynamic */
    bool evaluates_once; /* --val-every 0: after the last epoch only */
    /* Those with names; none: all parameters are one group, with the numbers above. */
    ff_recipe_group groups[FF_RECIPE_GROUPS];
} ff_recipe;

#define FF_RECIPE_SMALL FF_AUGMENT_SMALL

/* The first row of `model`, never NULL. */
const ff_recipe *ff_recipe_of(const char *model);
/* The row of that name, or NULL; the names, NULL past the last. */
const ff_recipe *ff_recipe_named(const char *recipe);
const char *ff_recipe_name(int index);

#endif
