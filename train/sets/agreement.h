/* Whether two packed sets may be used together for training and evaluation. The classic silent
 * error is to evaluate samples that were normalized with other statistics, or whose classes are
 * numbered differently. Thread-safe. */
#ifndef FF_TRAIN_AGREEMENT_H
#define FF_TRAIN_AGREEMENT_H

#include "format/reader/reader.h"

#define FF_AGREEMENT_ANY_CLASSES SIZE_MAX

/* One of the compared sets: an open one, or what a checkpoint has recorded of a set. */
typedef struct ff_agreement_side {
    const char *path; /* for error messages */
    const ff_metadata *metadata;
    size_t field; /* of the label; in the second side FF_AGREEMENT_ANY_CLASSES: classes are not
                     compared */
} ff_agreement_side;
static inline ff_agreement_side ff_agreement_of(const ff_dataset *set, size_t field) {
    return (ff_agreement_side){ff_dataset_path(set), ff_dataset_metadata(set), field};
}

typedef enum ff_agreement_fit {
    FF_FIT_WHOLE,     /* samples enter the net unchanged */
    FF_FIT_CROPPED,   /* cut to one size */
    FF_FIT_RESAMPLED, /* resampled to one size */
} ff_agreement_fit;
/* FF_BAD_DATA if `val` and `train` differ. The error message names both paths and the first
 * difference among channels, size, statistics, transforms and classes of the two fields, with both
 * values. dtype, layout and compression may differ. With FF_FIT_CROPPED the size may differ, too;
 * with FF_FIT_RESAMPLED also the transforms that make the size (resizes, crops, paddings). */
FF_MUST_USE ff_status ff_agreement_check(const ff_agreement_side *train,
                                         const ff_agreement_side *val, ff_agreement_fit fit,
                                         ff_error *error);

#endif
