/* Chooses the samples of a split for a contact sheet. */
#ifndef FF_FFINSPECT_SPREAD_H
#define FF_FFINSPECT_SPREAD_H

#include "format/reader/reader.h"

#define FF_SPREAD_NO_FIELD SIZE_MAX

/* Fills number[count], count <= the samples of the split, each number once. With a class field (its
 * index; FF_SPREAD_NO_FIELD = none): in the order of classes, from at most `count` classes, spread
 * evenly over all classes; the same number from each class if the class has enough samples, spread
 * over its samples. Without a field: in the order of numbers, spread over all samples. Reads every
 * label twice. */
FF_MUST_USE ff_status ff_inspect_spread(ff_dataset *dataset, size_t field, uint64_t *number,
                                        uint64_t count, ff_error *error);

#endif
