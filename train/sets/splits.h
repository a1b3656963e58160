/* Room train/sets, floor 7: the packed sets that a run trains and evaluates on.
 *
 * This header opens the folders of --data and --val and refuses sets that cannot be trained on.
 * agreement.c compares two sets: size, normalization and classes must fit. class_weights.c weighs
 * the loss by class; sizes.c reads --sizes, which lets images grow during a run.
 *
 * May include format, loader/augment.
 *
 * The packed sets of a run: which folders --data and --val mean, whether they can be trained on,
 * and whether they agree with each other. */
#ifndef FF_TRAIN_SPLITS_H
#define FF_TRAIN_SPLITS_H

#include "format/reader.h"
#include "loader/augment/augment.h"

/* --val none: nothing is evaluated. A folder of this name is ./none. */
#define FF_SPLITS_NO_VAL "none"

typedef struct ff_splits_options {
    const char *data; /* a split's folder, or a folder of splits with `train` */
    /* The same with `val`, `valid` or `test`; NULL = found next to `train`; FF_SPLITS_NO_VAL. */
    const char *val;
    const char *label; /* field; NULL = the first one */
    ff_verify verify;
    uint32_t crop; /* side of the square that is cut from every sample; 0 = the whole sample */
    const ff_augment_spec *augment; /* of training; its rrc also sets the side of the square */
    uint32_t val_resize; /* short side of samples before the crop of evaluation; 0 = chosen: that of
                            training's resize, else an eighth more than the square, where sizes
                            require it */
    /* Content ids of the sets with which the run began that goes on; NULL: a new run. A set that
     * was appended to since is used as it was then. */
    const char *began_data, *began_val;
} ff_splits_options;

typedef struct ff_splits {
    ff_dataset *train;
    ff_dataset *val;   /* NULL = nothing to evaluate on */
    bool val_found;    /* not named on the command line */
    const char *label; /* the field's name; valid as long as `train` */
    uint32_t classes;  /* of that field: the number of its names, or the largest label plus one */
    uint64_t train_without_label, val_without_label; /* samples that no loss counts */
    uint64_t train_left_out, val_left_out; /* samples that were appended since the run began */
    uint32_t channels, height, width;      /* as samples enter the net */
    /* Short side to which samples are resized for evaluation, also of the trained net elsewhere; 0
     * = not resized. */
    uint32_t val_resize;
} ff_splits;

/* Opens and checks. FF_USAGE: no such field, or one without classes. FF_BAD_DATA: empty,
 * variable-sized without resampling, u8 without statistics, or the two differ: the error message
 * names the first difference among channels, size, statistics, transforms and classes. Also the
 * reader's errors. On failure *splits is zeroed. Release with ff_splits_close. */
FF_MUST_USE ff_status ff_splits_open(ff_splits *splits, const ff_splits_options *options,
                                     ff_error *error);
/* Whether a value of --val is that; NULL is accepted. */
bool ff_splits_val_is_none(const char *val);
/* A set to evaluate alone: `folder` is a split's, or holds splits, of which the first of `val`,
 * `valid` and `test` is taken, else the only one. The same checks; *field: its label's, NULL: it
 * needs none. On failure *set = NULL. */
FF_MUST_USE ff_status ff_splits_open_one(ff_dataset **set, const char *folder, const char *label,
                                         ff_verify verify, size_t *field, ff_error *error);
/* After the loaders that use them are destroyed. A zeroed struct is accepted. */
void ff_splits_close(ff_splits *splits);

#endif
