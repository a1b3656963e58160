/* Gradients summed over the ranks of a job while the backward pass goes on: bucket by bucket, in a
 * stream of its own. Each rank adds its gradients, weighted by its samples, to the store's sums
 * (or they are these: ff_store_reserve_sums); these are reduced, and so is the outcome, from which
 * the update divides by the samples of the whole batch.
 *
 *   compute stream: ... backward | bucket 0 | ... | bucket n | outcome       wait | widen | update
 *   reducer's:                     wait, reduce 0 ...  wait, reduce n, wait, gather
 *
 * Each wait is for what the other stream has done before. Where the communicator's calls are in
 * graphs (ff_comm.in_graphs), and on the CPU, these are the calls in their order, and a capture has
 * all of them: the reducer's stream joins it by its first wait. Else a capture of the compute
 * stream ends with the outcome, and all calls of the reducer's stream come after it, outside of
 * graphs; they still wait for points inside it.
 *
 * Thread rule: the step's thread. */
#ifndef FF_TRAIN_REDUCER_H
#define FF_TRAIN_REDUCER_H

#include "train/comm/collective/comm.h"
#include "train/net/plan.h"

typedef struct ff_reducer ff_reducer;

typedef struct ff_reducer_options {
    int ranks;             /* at least 1 */
    ff_comm *comm;         /* NULL: memory is counted, nothing can run */
    ff_device *device;     /* of the communicator's streams; NULL = the compute's */
    uint64_t bucket_bytes; /* least bytes of a bucket's gradients; 0 = one bucket */
    /* FF_F16 or FF_BF16: a rank's sums are rounded to it, and so are those of all ranks; any other:
     * they are sent in f32. What is sent is divided by a power of two, more than `samples`, those
     * of the whole batch: of the size of a mean gradient it fits into f16 as well as these do. */
    ff_dtype dtype;
    int64_t samples;
    bool late; /* on a GPU: nothing is reduced before the backward pass is done */
} ff_reducer_options;

/* The store, which must have sums, and the communicator must outlive the reducer. On failure
 * *reducer = NULL. */
FF_MUST_USE ff_status ff_reducer_create(ff_reducer **reducer, ff_store *store,
                                        const ff_reducer_options *options, ff_error *error);
void ff_reducer_destroy(ff_reducer **reducer); /* waits for its stream; NULL is accepted */

const ff_bucket *ff_reducer_bucket(const ff_reducer *reducer, int bucket);
int ff_reducer_bucket_count(const ff_reducer *reducer);
/* Whether the plan computes any gradient of the bucket. */
bool ff_reducer_needs(const ff_reducer *reducer, const ff_plan *plan, int bucket);

/* Enqueued in the compute's stream, also in a capture: the bucket's sums, then the outcome of this
 * rank (ff_store.total), are complete. On the CPU, and where it may be in a graph, the bucket's
 * reduction begins there. */
FF_MUST_USE ff_status ff_reducer_bucket_done(ff_reducer *reducer, const ff_plan *plan, int bucket,
                                             ff_error *error);
FF_MUST_USE ff_status ff_reducer_outcome_done(ff_reducer *reducer, ff_error *error);
/* Before these, of a rank without a sample in this step: its sums and outcome are nothing. */
FF_MUST_USE ff_status ff_reducer_nothing(ff_reducer *reducer, ff_error *error);
/* Enqueues the other reductions, in a capture only where the communicator's calls are in graphs;
 * work enqueued in the compute's stream afterwards finds the sums and outcomes of all ranks. */
FF_MUST_USE ff_status ff_reducer_run(ff_reducer *reducer, const ff_plan *plan, ff_error *error);
/* Enqueues making the store's sums from what was reduced, where that is of 16 bits; also in a
 * capture. */
void ff_reducer_widen(ff_reducer *reducer);
/* Replaces *all by whether it is true at every rank, each of which calls it, not in a capture;
 * waits. */
FF_MUST_USE ff_status ff_reducer_agree(ff_reducer *reducer, bool *all, ff_error *error);
/* [ranks], on the device. */
const ff_outcome *ff_reducer_outcomes(const ff_reducer *reducer);

/* Rank 0's running statistics become those of all ranks. */
FF_MUST_USE ff_status ff_reducer_share_buffers(ff_reducer *reducer, ff_error *error);
/* Rank 0's values, state, averages, statistics and control become those of all ranks; waits. */
FF_MUST_USE ff_status ff_reducer_share_state(ff_reducer *reducer, ff_error *error);
/* The outcome of the next step that this rank begins says that this signal asks it to stop. */
void ff_reducer_stop(ff_reducer *reducer, int number);

/* Since creation, where the compute is on the CPU; else 0. */
typedef struct ff_reducer_times {
    uint64_t busy_ns;    /* spent reducing gradients */
    uint64_t exposed_ns; /* part of it that the update waited for */
} ff_reducer_times;
ff_reducer_times ff_reducer_measure(const ff_reducer *reducer);

#endif
