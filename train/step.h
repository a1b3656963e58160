/* Training steps that never wait: a step is given to the device and the host goes on; what it found
 * (loss, counts, skipped or not) comes back some steps later, in order.
 *
 * A step is a list of segments (segments.h): the gradients [batch, forward, backward] and the
 * update. Where the device is not the host and `record` is set, they are recorded. A plan of
 * another batch size has a first segment of its own; both use the same memory. An event after each
 * gradient bucket tells other streams, also inside of a recording, that its part of the gradients
 * is there.
 *
 * Several steps may exist in a process, on one device or on several; each belongs to one thread at
 * a time. */
#ifndef FF_TRAIN_STEP_H
#define FF_TRAIN_STEP_H

#include "loader/device/device.h"
#include "train/control.h"
#include "train/model.h"

typedef struct ff_step ff_step;

typedef struct ff_step_options {
    /* As in ff_update_options. */
    const ff_sgd *groups;
    int group_count;
    const double *rates;
    uint64_t rate_steps;
    uint64_t first_step; /* number of the first step: of a resumed run */
    /* Scale of the loss: 0 = 1, never changed; else where it begins. `scale_interval` good steps
     * double it, a step whose gradients are not finite halves it and changes nothing else;
     * 0 = fixed. */
    double loss_scale;
    uint32_t scale_interval;
    bool record; /* where a recording cannot be made, steps go on unrecorded: ff_step_note */
    uint32_t send_steps;   /* steps between outcomes sent to the host; 0 = 16 */
    uint64_t bucket_bytes; /* of gradients, at least, before an event; 0 = no events */
    /* What makes the batch in the stream: called when the first segment is given to it, also while
     * it is recorded, so it only enqueues. NULL = the batch is there already. */
    ff_status (*make_batch)(void *context, ff_stream *stream, ff_error *error);
    void *context;
} ff_step_options;

/* The model outlives it; all its plans are made before. On failure *step = NULL. */
FF_MUST_USE ff_status ff_step_create(ff_step **step, ff_model *model,
                                     const ff_step_options *options, ff_error *error);
/* Waits for what was given. NULL is accepted. */
void ff_step_destroy(ff_step **step);

/* Gives the device one step of a training plan. The batch lies in device memory, at the same place
 * at every call with this plan. What the plan leaves out (ff_model_plan_without) has a gradient of
 * 0. Errors are those of earlier steps, too. */
FF_MUST_USE ff_status ff_step_run(ff_step *step, ff_plan *plan, const ff_batch *batch,
                                  ff_error *error);

/* The segments of the next step but for its update, and waits: gradients as the update would get
 * them, and running statistics that have moved. The next call has the same number, so dropout
 * leaves out the same. outcome: loss_sum, count, correct and bad_sample alone. */
FF_MUST_USE ff_status ff_step_gradients(ff_step *step, ff_plan *plan, const ff_batch *batch,
                                        ff_outcome *outcome, ff_error *error);

/* The next outcomes, oldest first, that the caller has not had; *count = 0 where none has arrived.
 * Valid until the next call of ff_step_run or this one. Where `wait`, waits for all steps given so
 * far: call again until *count is 0. Call it after every step until *count is 0: the host may be
 * two sendings ahead of what it has had, and then ff_step_run waits. */
FF_MUST_USE ff_status ff_step_outcomes(ff_step *step, bool wait, const ff_outcome **outcomes,
                                       uint32_t *count, ff_error *error);

/* One sentence where steps were to be recorded and are not; else NULL. The step's. */
const char *ff_step_note(const ff_step *step);

/* Waits for what was given and forgets it: the next step has the first one's number, outcomes that
 * were not looked at are lost. Recordings stay. The control and the parameters are the caller's. */
FF_MUST_USE ff_status ff_step_restart(ff_step *step, ff_error *error);

/* Device time of steps that were looked at, since the last call: all of them, or one in some where
 * steps are recorded. */
typedef struct ff_step_times {
    uint64_t steps;
    uint64_t step_ns; /* from the end of the step before to the end of the step */
    uint64_t
        wait_ns; /* of it, until the network's first kernel: waiting for data, making a batch */
} ff_step_times;
ff_step_times ff_step_measure(ff_step *step);

#endif
