/* Statistics: a pass over a split's samples, or over a range of them, into exact sums, on several
 * threads. */
#ifndef FF_FFPACK_MEASURE_H
#define FF_FFPACK_MEASURE_H

#include "tools/ffpack/split/sample.h"

typedef struct ff_measure_job {
    const ff_sample_plan *plan; /* for u8 or u16 values */
    const ff_source_split *split;
    int jobs;
    bool skip;       /* leave out items that cannot be read, as when packing */
    uint64_t sample; /* only this number of items, the first in the order of seed 0; 0 = all */
    const ff_buffer *basis; /* the text of a metadata: everything that the sums depend on */
} ff_measure_job;

/* A range of the split's items, and the file DIRECTORY/NAME in which the pass over them saves its
 * progress, every few seconds, on a signal and at its end. A pass with the same basis continues
 * from it. */
typedef struct ff_measure_range {
    uint64_t first, end; /* storage positions */
    const char *directory, *name;
    bool shared; /* other processes may write the file; if it is broken, it is ignored */
    const char *title;
} ff_measure_range;

/* Fills the empty sums of the range's items. *fresh grows by the items that this run read itself.
 * Prints progress; returns FF_INTERRUPTED on a signal. */
FF_MUST_USE ff_status ff_measure(const ff_measure_job *job, const ff_measure_range *range,
                                 ff_stats *sums, uint64_t *fresh, ff_error *error);

/* Reads the file: the sums of the positions below *done, which is range->first without a file, or
 * with a file of another basis. */
FF_MUST_USE ff_status ff_measure_kept(const ff_measure_job *job, const ff_measure_range *range,
                                      ff_stats *sums, uint64_t *done, ff_error *error);

/* Computes mean and std from the sums; errors name the split. */
FF_MUST_USE ff_status ff_measure_finish(const ff_sample_plan *plan, const ff_source_split *split,
                                        const ff_stats *total, float *mean, float *std,
                                        ff_error *error);

#endif
