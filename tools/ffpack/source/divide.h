/* Divides a listed source without splits into the splits of its rule (split_rule.h). Items keep
 * their keys, their labels and the order of their numbers. Memory: with --stratify a byte an item,
 * and 8 bytes for each item of the largest class. Thread rule: one thread. */
#ifndef FF_FFPACK_SOURCE_DIVIDE_H
#define FF_FFPACK_SOURCE_DIVIDE_H

#include "tools/ffpack/source/source.h"

/* Replaces the only split of `source` by the splits of source->rule, train first. FF_USAGE if the
 * source has its own splits, a split would have no items (a recorded rule leaves such splits out),
 * or --stratify finds no classes. Called by ff_source_list. */
FF_MUST_USE ff_status ff_source_divide(ff_source *source, ff_error *error);

#endif
