/* Optimizers, one file each, and the table of them. Values, gradients and state are flat f32 arrays
 * in the same order (each parameter in its held layout), so that one pass updates the whole model.
 * The formulas: elements.h and muon.h. Pure except for what is updated. */
#ifndef FF_TRAIN_OPTIMIZERS_H
#define FF_TRAIN_OPTIMIZERS_H

#include "format/disk/dtype.h"
#include "train/compute/optimizers/elements.h"

#include <stddef.h>

/* Parameters that are updated in the same way: those whose name matches one of a list of fnmatch(3)
 * patterns, or whose kind is named: norm (the factors and offsets of batch norms), bias (of
 * convolutions and linear layers), head (the linear layer of the logits), body (all except the
 * head). */
typedef struct ff_group {
    const char *names; /* "*.bias"; "norm,fc.*"; "*" = all */
    ff_rule rule;
    const char *within; /* only those that match this list, too; NULL = all */
} ff_group;

/* Adjacent parameters of one group; a single one for an optimizer with norms. Aligned to 64
 * bytes. An optimizer reads only `gradient`; ff_optimizer_spans and ff_optimizer_sum convert
 * `narrow_gradient`. */
typedef struct ff_arrays {
    size_t count;
    float *value, *state[FF_STATES];
    const float *gradient;
    const uint16_t *narrow_gradient; /* bf16, instead of `gradient`; NULL = f32 */
    uint16_t *working; /* bf16 copies of the values, which an update writes; NULL = none */
    bool adapts; /* for optimizers with norms: the parameter has a ratio; norms and biases do not */
} ff_arrays;

/* No default: the optimizer does not read this hyperparameter. */
#define FF_UNREAD (-1.0)

typedef struct ff_optimizer {
    const char *name;                  /* "adamw": of --optimizer */
    const char *title;                 /* "AdamW" */
    int states;                        /* blocks of state, at most FF_STATES */
    const char *state_name[FF_STATES]; /* torch's: "exp_avg" */
    bool norms;           /* needs norms of each parameter: its parameters are updated one by one */
    ff_hyper defaults;    /* FF_UNREAD: not read */
    const char *no_decay; /* parameters without weight decay, as ff_group.names; NULL = all decay */
    /* An update on the caller's OpenMP threads, with the same bits for any number of threads. NULL:
     * Muon, whose matrix products come from the compute table. */
    void (*update)(const ff_factors *factors, const ff_arrays *arrays);
} ff_optimizer;

/* By ff_rule; NULL past the last. */
const ff_optimizer *ff_optimizer_at(int rule);
/* FF_RULE_COUNT if no optimizer has this name of `length` characters. */
ff_rule ff_optimizer_named(const char *name, size_t length);

/* The first hyperparameter that SGD does not have. */
enum { FF_HYPER_BETA1 = 3 };
/* The hyperparameters' names as in options: "lr", "weight-decay", ...; NULL past the last; and the
 * place of each in ff_hyper. */
const char *ff_hyper_name(int index);
double *ff_hyper_at(const ff_hyper *hyper, int index);

/* ---- for the optimizers ---- */

/* Calls `update` for spans that stay in a processor's cache, on OpenMP's threads. Every element is
 * computed alone: the result does not depend on the number of threads. Each span's working copies
 * are written after its `update`, while its values are in the cache. */
void ff_optimizer_spans(const ff_factors *factors, const ff_arrays *arrays,
                        void (*update)(const ff_factors *factors, const ff_arrays *span));
/* sum = (first ? 0 : sum) + weight * value; value: f32 or bf16. */
void ff_optimizer_add(float weight, bool first, size_t count, const void *value, ff_dtype dtype,
                      float *sum);
/* average = decay * average + (1 - decay) * value. */
void ff_optimizer_average(double decay, size_t count, const float *value, float *average);
/* The sum of `sum` over parts of the arrays, the same for any number of threads. */
double ff_optimizer_sum(const ff_factors *factors, const ff_arrays *arrays,
                        double (*sum)(const ff_factors *factors, const ff_arrays *part));
/* Sums of squares for ff_optimizer_sum. */
double ff_squares_of_values(const ff_factors *factors, const ff_arrays *part);
double ff_squares_of_gradients(const ff_factors *factors, const ff_arrays *part);
/* 0 if all gradients are finite, else NaN. */
double ff_zeros_of_gradients(const ff_factors *factors, const ff_arrays *part);

extern const ff_optimizer ff_optimizer_sgd, ff_optimizer_muon, ff_optimizer_adamw,
    ff_optimizer_lars, ff_optimizer_lamb;

#endif
