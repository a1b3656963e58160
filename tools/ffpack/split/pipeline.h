/* Work shared by threads and taken in order: units are numbered, workers make them concurrently,
 * and the worker that has made the lowest one takes it, and those after it that are ready, while
 * the others make more: what it takes is in its caches, and no more threads than workers are
 * active. Neither the result nor the reported failure depends on the number of workers: the lowest
 * unit's failure is reported. */
#ifndef FF_FFPACK_PIPELINE_H
#define FF_FFPACK_PIPELINE_H

#include "format/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ff_pipeline {
    uint64_t first, end; /* units first .. end - 1 */
    int jobs;            /* worker threads */
    size_t slot_count;   /* units started but not yet taken, at most: bounds the memory */
    void *context;
    /* On worker `worker` < jobs: makes unit `number` into slot `slot` < slot_count. */
    ff_status (*make)(void *context, int worker, size_t slot, uint64_t number, ff_error *error);
    /* On any thread, in order, never two at once: takes the slot's content. */
    ff_status (*take)(void *context, size_t slot, uint64_t number, ff_error *error);
    /* On any thread, never together with `take`, before each `take` and ten times a second; a
     * failure ends the run. May be NULL. */
    ff_status (*watch)(void *context, ff_error *error);
} ff_pipeline;

/* Returns when all units are taken, or with the first failure, after all workers have stopped. */
FF_MUST_USE ff_status ff_pipeline_run(const ff_pipeline *pipeline, ff_error *error);

#endif
