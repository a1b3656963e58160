/* What a model trains well with where the command line does not say otherwise: one row a model.
 * Pure. */
#ifndef FF_TRAIN_RECIPE_TABLE_H
#define FF_TRAIN_RECIPE_TABLE_H

#include <stdbool.h>

typedef struct ff_recipe_defaults {
    const char *model; /* its name; NULL = every model without a row of its own */
    int epochs;
    int batch;
    double learning_rate; /* at `batch` samples; others scale it in proportion (P. Goyal et al.,
                             arXiv 1706.02677: the linear scaling rule) */
    double momentum;
    bool nesterov;
    double weight_decay;
    double label_smoothing;
    double warmup_epochs;
    const char *augment_small; /* --augment for images of at most FF_RECIPE_SMALL pixels a side */
    const char *augment;       /* and for larger ones */
} ff_recipe_defaults;

#define FF_RECIPE_SMALL 64

/* The row of `model`, never NULL. */
const ff_recipe_defaults *ff_recipe_defaults_of(const char *model);

#endif
