/* Whether two packed sets may be trained and evaluated on together: the classic silent error is to
 * evaluate samples that were normalized with other statistics, or whose classes are numbered
 * differently. Thread-safe. */
#ifndef FF_TRAIN_AGREEMENT_H
#define FF_TRAIN_AGREEMENT_H

#include "format/reader.h"

/* FF_BAD_DATA where `val` and `train` differ: the error message names both paths and the first
 * difference among channels, size, statistics, transforms and classes of the two fields, with both
 * values. dtype, layout and compression may differ; the size where both are cropped to one later;
 * the size and the transforms that make it (resizes, crops, paddings) where both are `resampled`.
 */
typedef enum ff_agreement_fit {
    FF_FIT_WHOLE,     /* samples enter the net unchanged */
    FF_FIT_CROPPED,   /* cut to one size */
    FF_FIT_RESAMPLED, /* resampled to one size */
} ff_agreement_fit;
FF_MUST_USE ff_status ff_agreement_check(const ff_dataset *train, size_t train_field,
                                         const ff_dataset *val, size_t val_field,
                                         ff_agreement_fit fit, ff_error *error);

#endif
