/* Whether two packed sets may be trained and evaluated on together: the classic silent error is to
 * evaluate samples that were normalized with other statistics, or whose classes have other
 * numbers. Thread-safe. */
#ifndef FF_TRAIN_AGREEMENT_H
#define FF_TRAIN_AGREEMENT_H

#include "format/reader.h"

/* FF_BAD_DATA where `val` and `train` differ: the sentence names both paths and the first
 * difference among channels, size (where not `cropped` to one size later), statistics, transforms
 * and classes of the two fields, with both values. dtype, layout and compression may differ. */
FF_MUST_USE ff_status ff_agreement_check(const ff_dataset *train, size_t train_field,
                                         const ff_dataset *val, size_t val_field, bool cropped,
                                         ff_error *error);

#endif
