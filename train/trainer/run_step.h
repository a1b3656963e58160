/* One step of a run: its micro-batches, from the trainer's feed. One thread at a time. */
#ifndef FF_TRAIN_RUN_STEP_H
#define FF_TRAIN_RUN_STEP_H

#include "train/trainer/trainer.h"

/* The batches that a step has taken from the feed. */
typedef struct ff_step_input {
    uint64_t asked_ns; /* the host waited for batches */
    bool epoch_over;   /* the feed's */
    bool begun;        /* a micro-batch was enqueued: running statistics are no longer the step
                        * before's */
} ff_step_input;

/* Enqueues the work of a micro-batch, whose size is the plan's; `last`: the step's last one. */
typedef ff_status (*ff_micro_batch_run)(void *context, ff_plan *plan, const ff_batch *batch,
                                        bool last, ff_error *error);
/* Trains: the context is the ff_step. */
FF_MUST_USE ff_status ff_micro_batch_train(void *step, ff_plan *plan, const ff_batch *batch,
                                           bool last, ff_error *error);

/* Step `step` (from 0), whose batches the feed has next; the last one of an epoch also takes the
 * micro-batches that are too few for a step. Adds to *taken. */
FF_MUST_USE ff_status ff_run_step(ff_trainer *trainer, uint64_t step, ff_micro_batch_run use,
                                  void *context, ff_step_input *taken, ff_error *error);

#endif
