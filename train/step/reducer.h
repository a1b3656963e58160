/* The sums of gradients over the ranks of a job, reduced while the backward pass continues: bucket
 * by bucket, in a stream of their own. Each rank adds its gradients, weighted by its samples, to
 * the store's sums (or the gradients are the sums: ff_store_reserve_sums). The sums are all-reduced
 * and the ranks' outcomes gathered; from the outcomes the update divides by the samples of the
 * whole batch.
 *
 *   compute stream: ... backward | bucket 0 | ... | bucket n | outcome       wait | widen | update
 *   reducer's:                     wait, reduce 0 ...  wait, reduce n, wait, gather
 *
 * Each wait is for what the other stream has done before. A collective in the compute stream waits
 * for the reductions before it (ff_reducer_await), and a reduction for the collectives before it,
 * by its bucket's event: a rank's collectives never run at once. If the communicator's calls are in
 * graphs (ff_comm.in_graphs), and on the CPU, the calls are made in this order, and a capture
 * contains all of them: the reducer's stream joins the capture by its first wait. Otherwise a
 * capture of the compute stream ends with the outcome, and all calls of the reducer's stream follow
 * it, outside graphs; they still wait for events inside the graph.
 *
 * Thread rule: the step's thread. */
#ifndef FF_TRAIN_REDUCER_H
#define FF_TRAIN_REDUCER_H

#include "train/comm/collective/comm.h"
#include "train/net/plan.h"

typedef struct ff_reducer ff_reducer;

typedef struct ff_reducer_options {
    int ranks;             /* at least 1 */
    ff_comm *comm;         /* NULL: memory is only counted, nothing can run */
    ff_device *device;     /* of the communicator's streams; NULL = the compute's */
    uint64_t bucket_bytes; /* least bytes of a bucket's gradients; 0 = one bucket */
    /* FF_F16 or FF_BF16: a rank's sums, and the sums over all ranks, are rounded to this dtype. Any
     * other: sums are sent in f32. 16-bit sums are divided by a power of two greater than
     * `samples`, the samples of the whole batch. They then have the size of a mean gradient, and
     * fit into f16 as mean gradients do. */
    ff_dtype dtype;
    int64_t samples;
    /* The compute stream has collectives, too. Reductions that are not begun at once then begin
     * only after the backward pass. */
    bool late;
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

/* Both are enqueued in the compute's stream, also in a capture, when the bucket's sums, and then
 * this rank's outcome (ff_store.total), are complete. On the CPU, and if collectives may be in
 * graphs, ff_reducer_bucket_done also begins the bucket's reduction. */
FF_MUST_USE ff_status ff_reducer_bucket_done(ff_reducer *reducer, const ff_plan *plan, int bucket,
                                             ff_error *error);
FF_MUST_USE ff_status ff_reducer_outcome_done(ff_reducer *reducer, ff_error *error);
/* Call before these two if this rank has no sample in the step: clears its sums and its outcome. */
FF_MUST_USE ff_status ff_reducer_nothing(ff_reducer *reducer, ff_error *error);
/* Enqueues the other reductions, in a capture only if the communicator's calls are in graphs. Work
 * enqueued in the compute's stream afterwards finds the sums and outcomes of all ranks. */
FF_MUST_USE ff_status ff_reducer_run(ff_reducer *reducer, const ff_plan *plan, ff_error *error);
/* Makes the compute's stream wait for the reductions enqueued so far in this step, if their calls
 * may be in graphs; also in a capture. Call it before a collective in that stream. */
FF_MUST_USE ff_status ff_reducer_await(ff_reducer *reducer, ff_error *error);
/* Enqueues the conversion of the reduced sums to the store's f32 sums, if they were sent in 16
 * bits; also in a capture. */
void ff_reducer_widen(ff_reducer *reducer);
/* Sets *all to whether it is true at every rank. Every rank must make this call, not in a capture;
 * it waits. */
FF_MUST_USE ff_status ff_reducer_agree(ff_reducer *reducer, bool *all, ff_error *error);
/* [ranks], on the device. */
const ff_outcome *ff_reducer_outcomes(const ff_reducer *reducer);

/* Copies rank 0's running statistics to all ranks. */
FF_MUST_USE ff_status ff_reducer_share_buffers(ff_reducer *reducer, ff_error *error);
/* Copies rank 0's values, state, averages, statistics and control to all ranks; waits. */
FF_MUST_USE ff_status ff_reducer_share_state(ff_reducer *reducer, ff_error *error);
/* Records in the outcome of this rank's next step that signal `number` asks the rank to stop. */
void ff_reducer_stop(ff_reducer *reducer, int number);

/* Since creation, if the compute is on the CPU; else 0. */
typedef struct ff_reducer_times {
    uint64_t busy_ns;    /* spent reducing gradients */
    uint64_t exposed_ns; /* part of it that the update waited for */
} ff_reducer_times;
ff_reducer_times ff_reducer_measure(const ff_reducer *reducer);

#endif
