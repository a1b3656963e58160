/* The joint work of a job's ranks in a run, in addition to their steps. Without a job these
 * functions do nothing. */
#ifndef FF_TRAIN_RUN_RANKS_H
#define FF_TRAIN_RUN_RANKS_H

#include "train/checkpoint/state.h"
#include "train/trainer/trainer.h"

/* If rank 0 resumes from a checkpoint, all ranks do: its state and values become theirs. */
FF_MUST_USE ff_status ff_ranks_begin(ff_trainer *trainer, bool *goes_on, ff_run_state *state,
                                     ff_error *error);
/* Call before an evaluation: the running statistics become rank 0's. */
FF_MUST_USE ff_status ff_ranks_share_buffers(ff_trainer *trainer, ff_error *error);
/* FF_FAILED if ranks do not have the same parameters, bit for bit. step: steps done. */
FF_MUST_USE ff_status ff_ranks_compare(ff_trainer *trainer, uint64_t step, ff_error *error);

/* A signal to one rank stops all of them, after the same step. */
typedef struct ff_stop {
    int signal;  /* 0 = none */
    uint64_t at; /* the number of steps after which all ranks stop */
} ff_stop;

/* Takes an outcome that has arrived. */
void ff_stop_note(ff_stop *stop, const ff_trainer *trainer, const ff_outcome *outcome);
/* Call before a step, after `step` others. FF_INTERRUPTED if the step is not to be made. */
FF_MUST_USE ff_status ff_stop_check(ff_stop *stop, ff_trainer *trainer, uint64_t step,
                                    ff_error *error);

/* Ends all stopped ranks like rank 0, the only one that saves a checkpoint. */
FF_MUST_USE ff_status ff_ranks_stopped(ff_trainer *trainer, const ff_stop *stop, ff_status status,
                                       ff_error *error);

/* On the CPU, since the start: time spent reducing gradients, and the part of it that updates
 * waited for; 0 without a job. */
ff_reducer_times ff_ranks_measure(const ff_trainer *trainer);

#endif
