/* Statistics: one pass over a split's samples into exact sums, on several threads. */
#ifndef FF_FFPACK_MEASURE_H
#define FF_FFPACK_MEASURE_H

#include "tools/ffpack/sample.h"

typedef struct ff_measure_job {
    const ff_sample_plan *plan; /* of u8 or u16 values */
    const ff_source_split *split;
    int jobs;
    bool skip;       /* leave out items that cannot be read, as when packing */
    uint64_t sample; /* only the first so many items of the order of seed 0; 0 = all */
    /* Where the pass saves its progress (measured.ffp), every few seconds, on a signal and at its
     * end; a pass with the same basis continues from it. */
    const char *directory;
    const ff_buffer *basis; /* the text of a metadata: everything that the sums depend on */
} ff_measure_job;

/* mean and std: [plan->channels] f32. *fresh counts the items that this run read itself. Prints
 * progress; returns FF_INTERRUPTED on a signal. */
FF_MUST_USE ff_status ff_measure(const ff_measure_job *job, float *mean, float *std,
                                 uint64_t *fresh, ff_error *error);

/* Computes mean and std from the sums; errors name the split. */
FF_MUST_USE ff_status ff_measure_finish(const ff_sample_plan *plan, const ff_source_split *split,
                                        const ff_stats *total, float *mean, float *std,
                                        ff_error *error);

#endif
