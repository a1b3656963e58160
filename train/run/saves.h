/* Decides when a run saves a checkpoint, and handles the checkpoint's error. Every function does
 * nothing without a keeper. Thread rule: the model's thread. */
#ifndef FF_TRAIN_RUN_SAVES_H
#define FF_TRAIN_RUN_SAVES_H

#include "train/checkpoint/every.h"
#include "train/checkpoint/keeper.h"
#include "train/report/report.h"

typedef struct ff_saves {
    ff_keeper *keeper; /* NULL: no checkpoints are written */
    ff_every every;
    ff_report *report;   /* receives notes */
    uint64_t saved_ns;   /* when the last checkpoint was begun */
    uint64_t saved_step; /* steps of the last checkpoint */
} ff_saves;

/* Whether --checkpoint-every requests a checkpoint after this step. */
bool ff_saves_due_after_step(const ff_saves *saves, uint64_t steps);
/* Whether a checkpoint is due after an epoch (counted from 1) and its evaluation; `steps`: all
 * steps so far; `best`: no earlier evaluation was as good. The last epoch is always saved. */
bool ff_saves_due_after_epoch(const ff_saves *saves, uint64_t steps, uint32_t epoch, bool last,
                              bool best);

/* Saves a checkpoint of the model's values and this state; training continues while it is
 * written. */
FF_MUST_USE ff_status ff_saves_take(ff_saves *saves, const ff_run_state *state, ff_error *error);
/* The path of the last complete checkpoint; NULL without one. */
const char *ff_saves_last(const ff_saves *saves);

/* Saves a checkpoint of a run that a signal stops. *error, which reports how far the run got, is
 * extended by how to resume. SIGTERM and SIGUSR1 come from schedulers, which restart such a run:
 * FF_PREEMPTED; else FF_INTERRUPTED. */
FF_MUST_USE ff_status ff_saves_stop(ff_saves *saves, const ff_run_state *state, int signal_number,
                                    ff_error *error);
/* After a failure outside of training, saves the trained values; *error then names the
 * checkpoint. */
void ff_saves_fail(ff_saves *saves, const ff_run_state *state, ff_error *error);
/* Call at the end of a run. If the run is done, its last checkpoint is on the disk, or the error is
 * returned; if it failed with `status`, a note reports the checkpoint's error. */
FF_MUST_USE ff_status ff_saves_finish(ff_saves *saves, ff_status status, ff_error *error);

#endif
