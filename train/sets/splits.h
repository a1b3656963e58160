/* Room train/sets, floor 10: the packed sets that a run trains and evaluates on.
 *
 * This header opens the folders of --data and --val and refuses sets that training cannot use.
 * agreement.c compares two sets: size, normalization and classes must fit. class_weights.c weights
 * the loss by class. sizes.c reads --sizes, which lets images grow during a run.
 *
 * May include format, loader/augment, loader/selection.
 *
 * The packed sets of a run: which folders --data and --val mean, whether training can use them, and
 * whether they agree with each other. */
#ifndef FF_TRAIN_SPLITS_H
#define FF_TRAIN_SPLITS_H

#include "format/reader/reader.h"
#include "loader/augment/augment.h"
#include "loader/selection/shares.h"
#include "loader/selection/weights.h"

/* --val none: no evaluation. ./none names a folder called "none". */
#define FF_SPLITS_NO_VAL "none"

typedef struct ff_splits_options {
    /* A split's folder, or a folder of splits with `train`; several with commas between are used as
     * one set (folders.h), and `val` is next to the first. */
    const char *data;
    /* A split's folder, or one with `val`, `valid` or `test`; NULL = next to `train`;
     * FF_SPLITS_NO_VAL. */
    const char *val;
    const char *label; /* field; NULL = the first one */
    /* The samples of `data` that are trained on; NULL = all. subset: an expression, or a file of
     * numbers or keys. fold: "2/5" and the like (ff_selection_rule): training on the other folds,
     * evaluation on this one, in place of `val`, of the same subset. */
    const char *subset, *fold;
    const char *sample_weights; /* ff_weights_rule.given of the samples that are trained on */
    bool no_replacement;        /* ff_weights_rule.distinct and samples */
    uint64_t samples_per_epoch;
    const char *shares; /* as in ff_shares_make; NULL = none */
    bool shares_of_batch;
    ff_verify verify;
    uint32_t crop; /* side of the square that is cut from every sample; 0 = the whole sample */
    const ff_augment_spec *augment; /* of training; its rrc also sets the side of the square */
    uint32_t val_resize; /* short side of samples before evaluation's crop; 0 = chosen: the one of
                            training's resize, else an eighth more than the square, if sizes require
                            it */
    /* When a run resumes, the content ids of the sets with which it began; NULL: a new run. If
     * samples were appended since, the set is used as it was then. */
    const char *began_data, *began_val;
} ff_splits_options;

typedef struct ff_splits {
    ff_dataset *train;
    ff_dataset *val;                           /* NULL = no set to evaluate on */
    bool val_found;                            /* found, not named on the command line */
    ff_selection train_selected, val_selected; /* of both; zeroed = all samples */
    ff_weights weights;                        /* of training samples; zeroed = all alike */
    ff_shares shares;                          /* of the sets of `train`; zeroed = none */
    const char *label;                         /* the field's name; valid as long as `train` */
    uint32_t classes; /* of the label: the number of its names, or the largest label plus one */
    uint64_t train_without_label, val_without_label; /* samples without a loss */
    uint64_t train_left_out, val_left_out;           /* samples appended since the run began */
    uint32_t channels, height, width;                /* as samples enter the net */
    /* Short side to which samples are resized for evaluation, also by programs that use the trained
     * net; 0 = not resized. */
    uint32_t val_resize;
} ff_splits;

/* Opens and checks the sets. FF_USAGE: the field does not exist, or has no classes, or no sample is
 * selected. FF_BAD_DATA: a set is empty, variable-sized without resampling, or u8 without
 * statistics; or the two differ: the error message names the first difference among channels, size,
 * statistics, transforms and classes. Also the reader's errors. On failure *splits is zeroed.
 * Release with ff_splits_close. */
FF_MUST_USE ff_status ff_splits_open(ff_splits *splits, const ff_splits_options *options,
                                     ff_error *error);
/* A selection, weights and shares as loaders take them: NULL = all samples, all alike, none; and
 * the number of samples of a set with a selection. */
static inline const ff_selection *ff_splits_selection(const ff_selection *selected) {
    return selected->count ? selected : NULL;
}
static inline const ff_weights *ff_splits_weights(const ff_splits *splits) {
    return splits->weights.count ? &splits->weights : NULL;
}
static inline const ff_shares *ff_splits_shares(const ff_splits *splits) {
    return splits->shares.count ? &splits->shares : NULL;
}
static inline uint64_t ff_splits_count(const ff_dataset *set, const ff_selection *selected) {
    return selected->count ? selected->count : ff_dataset_count(set);
}
/* Whether a value of --val is FF_SPLITS_NO_VAL; NULL is accepted. */
bool ff_splits_val_is_none(const char *val);
/* Opens a set for evaluation alone. `folder` is a split's, or holds splits: then the first of
 * `val`, `valid` and `test` is used, else the only one. The checks are the same. *field: the
 * label's; NULL: no label is needed. On failure *set = NULL. */
FF_MUST_USE ff_status ff_splits_open_one(ff_dataset **set, const char *folder, const char *label,
                                         ff_verify verify, size_t *field, ff_error *error);
/* Call after the loaders that use the sets are destroyed. A zeroed struct is accepted. */
void ff_splits_close(ff_splits *splits);

#endif
