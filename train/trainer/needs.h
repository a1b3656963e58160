/* The memory that a run needs and that the machine has: for --dry-run, and to refuse a run that
 * does not fit. */
#ifndef FF_TRAIN_NEEDS_H
#define FF_TRAIN_NEEDS_H

#include "format/cli/host_memory.h"

#include <stdio.h>

struct ff_trainer;

/* ff_compute.program_bytes, if it was not measured. */
#define FF_NEEDS_PROGRAM_BYTES (52u << 20)

typedef struct ff_needs {
    /* The program; the memory for reading ahead of a set larger than memory; on a CPU all memory
     * except the sets; on a GPU pinned memory and learning rates; if the run keeps checkpoints, the
     * copy that is written; and the memory of the hashes. */
    uint64_t host_bytes;
    ff_host_memory host; /* free memory when the needs were counted */
    /* A GPU's; both 0 on the CPU. With the workspaces of engines chosen without timing (a run may
     * choose others), and without what CUDA's libraries allocate for themselves. */
    uint64_t device_bytes, device_has;
    const char *device_limit;     /* after device_has: " free"; "" for a planned device */
    int host_ranks, device_ranks; /* that share this memory: of ff_job_sharing */
    uint64_t mapped_bytes;        /* of the sets; page cache, which the system can reclaim */
    uint64_t shard_bytes;         /* the part of these that is mapped during the run */
} ff_needs;

/* For a trainer whose parts are built on an absent device (loader/device/absent.h), which counts
 * its allocations. */
FF_MUST_USE ff_status ff_needs_of(ff_needs *needs, const struct ff_trainer *trainer,
                                  ff_error *error);
/* Two or three lines of the summary. */
void ff_needs_print(FILE *out, const ff_needs *needs);
/* The batch of --batch auto: the largest that fits, in the number of micro-batches that `counted`
 * has; the sizes of micro-batches are multiples of 8. counted: a counted trainer whose batch is the
 * recipe's, or the set where that is smaller; its set and the recipe's `usual` batch bound the
 * choice. *reason: why the batch is not larger, a static clause. */
void ff_needs_choose_batch(const struct ff_trainer *counted, int64_t usual, int64_t *batch,
                           const char **reason);
/* About the most samples of a micro-batch with which this rank fits into its part of the memory; 0
 * = none. Every rank may have this many. */
int64_t ff_needs_most_rows(const struct ff_trainer *trainer);
/* FF_NO_MEMORY if the machine or the device has less: the error names what is needed, what is free,
 * and the --batch and the --accumulate that would fit, if any. In a job every rank calls this, and
 * the error names all ranks' needs and the shares that would fit. */
FF_MUST_USE ff_status ff_needs_check(const struct ff_trainer *trainer, ff_error *error);

#endif
