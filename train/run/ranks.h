/* What the ranks of a job do together in a run, beside their steps. Alone they do nothing. */
#ifndef FF_TRAIN_RUN_RANKS_H
#define FF_TRAIN_RUN_RANKS_H

#include "train/checkpoint/state.h"
#include "train/trainer/trainer.h"

/* Where rank 0 goes on from a checkpoint, so do the others: its state and values become theirs. */
FF_MUST_USE ff_status ff_ranks_begin(ff_trainer *trainer, bool *goes_on, ff_run_state *state,
                                     ff_error *error);
/* Before an evaluation: the running statistics are rank 0's. */
FF_MUST_USE ff_status ff_ranks_share_buffers(ff_trainer *trainer, ff_error *error);
/* FF_FAILED where ranks do not have the same parameters, bit for bit. step: steps done. */
FF_MUST_USE ff_status ff_ranks_compare(ff_trainer *trainer, uint64_t step, ff_error *error);

/* A signal to one rank stops all of them, after the same step. */
typedef struct ff_stop {
    int signal;  /* 0 = none */
    uint64_t at; /* after these steps */
} ff_stop;

/* An outcome that has arrived. */
void ff_stop_note(ff_stop *stop, const ff_trainer *trainer, const ff_outcome *outcome);
/* Before a step, after `step` others: FF_INTERRUPTED where it is not to be made. */
FF_MUST_USE ff_status ff_stop_check(ff_stop *stop, ff_trainer *trainer, uint64_t step,
                                    ff_error *error);

/* How all ranks end that were stopped: as rank 0, which alone saves a checkpoint. */
FF_MUST_USE ff_status ff_ranks_stopped(ff_trainer *trainer, const ff_stop *stop, ff_status status,
                                       ff_error *error);

/* Since the start, on the CPU: time spent reducing gradients, and the part of it that updates
 * waited for; 0 alone. */
ff_reducer_times ff_ranks_measure(const ff_trainer *trainer);

#endif
