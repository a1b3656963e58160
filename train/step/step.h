/* Room train/step, floor 12: one training step after another, without waiting.
 *
 * feed.c has the next batch ready, from the host's loader or made on the device. The host enqueues
 * a step as a list of segments (segments.c), which a GPU records once and replays: gradients, then
 * the update (update.c). With several ranks reducer.c adds gradients over the ranks while the
 * backward pass continues. The outcome of a step arrives later, through a ring in device memory
 * (outcome_ring.c). step_timer.c measures some of the steps. step.c opens with the story of a step.
 *
 * May include format, loader/device, loader/gpu, loader/rates, train/comm/collective,
 * train/compute, train/net.
 *
 * Asynchronous training steps: a step is enqueued and the host continues. Its outcome (loss,
 * counts, skipped or not) arrives some steps later, in order.
 *
 * A step is a list of segments (segments.h): the gradients [batch, forward, backward] and the
 * update. In a job of several ranks the two are one segment, [batch, forward, backward, reduction,
 * update], in which the reduction runs during the backward pass (reducer.h). On a device that is
 * not the host segments are captured as graphs if `record` is set: whole, with NCCL's collectives,
 * if each rank has a process of its own; otherwise graphs end at collectives. A plan of another
 * batch size has segments of its own; all use the same memory.
 *
 * A process may have several ff_steps, on one device or several; each belongs to one thread at a
 * time. */
#ifndef FF_TRAIN_STEP_H
#define FF_TRAIN_STEP_H

#include "loader/device/device.h"
#include "train/comm/collective/comm.h"
#include "train/compute/control.h"
#include "train/net/model.h"
#include "train/step/reducer.h"
#include "train/step/step_timer.h"
#include "train/step/update.h"

typedef struct ff_step ff_step;

/* The most steps that may be enqueued without an outcome yet, with the default send_steps. */
enum { FF_STEP_AHEAD = 32 };

typedef struct ff_step_options {
    ff_update_options update; /* its divisor is the model's */
    uint64_t first_step;      /* number of the first step, for a resumed run */
    /* Initial loss scale: 0 = 1, fixed. `scale_interval` good steps double the scale; a step whose
     * gradients are not finite halves the scale and is skipped; interval 0 = fixed. */
    double loss_scale;
    uint32_t scale_interval;
    bool record;         /* capture graphs; if that fails, steps run without: ff_step_note */
    uint32_t send_steps; /* steps between copies of outcomes to the host; 0 = 16 */
    /* For a job of several ranks, which all make the same steps; as in ff_reducer_options. The
     * store must have sums. ranks 0 = 1. */
    int ranks;
    ff_comm *comm;
    ff_device *comm_device;
    uint64_t bucket_bytes;
    ff_dtype reduce_dtype;
    int64_t samples; /* of a whole batch */
    /* A communicator of the same ranks, `comm` or another one, for batch norms' statistics, used
     * with the compute's stream. NULL: each rank has its own statistics. */
    ff_comm *norms;
    /* Enqueues making the batch, as part of the first segment, also during capture, so it must only
     * enqueue. NULL = the batch is ready. */
    ff_status (*make_batch)(void *context, ff_stream *stream, ff_error *error);
    void *context;
} ff_step_options;

/* The model must outlive the step; make all its plans before. On failure *step = NULL. */
FF_MUST_USE ff_status ff_step_create(ff_step **step, ff_model *model,
                                     const ff_step_options *options, ff_error *error);
/* Waits for the enqueued work. NULL is accepted. */
void ff_step_destroy(ff_step **step);

/* Enqueues one step of a training plan. The batch is in device memory, at the same address at every
 * call with this plan; NULL, in a job: this rank has no sample of the batch. Parameters that the
 * plan leaves out (ff_plan_options.without) have gradient 0. Also returns errors of earlier
 * steps. */
FF_MUST_USE ff_status ff_step_run(ff_step *step, ff_plan *plan, const ff_batch *batch,
                                  ff_error *error);

/* Enqueues the gradients of a micro-batch; the gradients of the next call are added to them.
 * ff_step_run adds those of the last micro-batch and updates. The store must have sums
 * (ff_store_reserve_sums) when the step is made. Batch norms see one micro-batch at a time.
 * Otherwise as ff_step_run. */
FF_MUST_USE ff_status ff_step_add(ff_step *step, ff_plan *plan, const ff_batch *batch,
                                  ff_error *error);

/* In a job: whether the next steps' batches are whole (the default), or an epoch's last, smaller
 * one; the same at all ranks. In a smaller batch the ranks' shares differ in size and may be empty.
 * A collective must be in a graph of every rank or of none (comm.h), so it is then in none. */
void ff_step_set_whole(ff_step *step, bool whole);

/* Runs the segments of the next step without its update, and waits. Leaves the gradients as the
 * update would read them. Running statistics advance; the step's number does not, so the next call
 * has the same dropout. outcome: only loss_sum, count, correct and bad_sample. */
FF_MUST_USE ff_status ff_step_gradients(ff_step *step, ff_plan *plan, const ff_batch *batch,
                                        ff_outcome *outcome, ff_error *error);

/* The next outcomes, oldest first, that were not returned yet; *count = 0 if none has arrived.
 * Valid until the next call of ff_step_run or of this function. `wait`: waits for all steps
 * enqueued so far; call again until *count is 0. Call the function after every step until *count is
 * 0: with two copies of outcomes not returned, ff_step_run waits. */
FF_MUST_USE ff_status ff_step_outcomes(ff_step *step, bool wait, const ff_outcome **outcomes,
                                       uint32_t *count, ff_error *error);

/* The reduction of gradients; NULL in a job of one rank. */
ff_reducer *ff_step_reducer(ff_step *step);

/* One sentence if graphs were requested and capture failed; else NULL. Owned by the step. */
const char *ff_step_note(const ff_step *step);

/* Waits for the enqueued work and starts over: the next step has the number of the first, outcomes
 * not returned are lost, graphs are kept. The caller resets the control and the parameters. */
FF_MUST_USE ff_status ff_step_restart(ff_step *step, ff_error *error);

/* The timed steps since the last call: a sample of the steps. */
ff_step_times ff_step_measure(ff_step *step);

#endif
