/* How often each of the selected samples comes, and which ones are of a class, as tables for
 * loader/sequence/sampling.h.
 *
 * Thread rule: read-only once made. */
#ifndef FF_LOADER_WEIGHTS_H
#define FF_LOADER_WEIGHTS_H

#include "loader/selection/selection.h"

/* Weights of the places of an order, or classes of them. Zeroed: neither. 8 bytes a sample; with
 * classes 8 more. */
typedef struct ff_weights {
    uint64_t *table;    /* weights: [count] sums up to each place; classes: [count + 1] */
    uint64_t count;     /* places that have a weight, or classes */
    uint64_t distinct;  /* weights without replacement: the samples of an epoch; 0 = with it */
    ff_selection order; /* with classes: the samples by their classes, those without one left out */
    uint64_t id;        /* XXH3 of what the tables are made of */
} ff_weights;

/* One of `weight` and `given` is not NULL. */
typedef struct ff_weights_rule {
    const double *weight; /* [weight_count] of the selected samples, or of all of the set */
    size_t weight_count;
    /* "balanced": 1 / the number of samples of the same class, 0 without a class; a label field of
     * one number a sample; or a text file with a number a line, as `weight`. */
    const char *given;
    const char *label; /* the field of classes; NULL = the first one of classes */
    bool distinct;     /* without replacement: `samples` of them, 0 = the selection's number */
    uint64_t samples;
} ff_weights_rule;

static inline bool ff_weights_asked(const ff_weights_rule *rule) {
    return rule->weight || rule->given;
}

/* Sums of weights in units of 2^-62 of their sum; without replacement in units of which a power of
 * two is one sample of an epoch, and no weight has more. FF_USAGE: negative, infinite or NaN, all
 * 0, too few or too many, an unknown field; also the reader's errors. Released with
 * ff_weights_free; zeroed on failure. selection: NULL = all samples. */
FF_MUST_USE ff_status ff_weights_make(ff_weights *weights, ff_dataset *dataset,
                                      const ff_selection *selection, const ff_weights_rule *rule,
                                      ff_error *error);
/* The classes of a field (as ff_weights_rule.label). FF_USAGE: no sample has a class. */
FF_MUST_USE ff_status ff_weights_classes(ff_weights *classes, ff_dataset *dataset,
                                         const ff_selection *selection, const char *label,
                                         ff_error *error);
/* A zeroed one is accepted. */
void ff_weights_free(ff_weights *weights);

#endif
