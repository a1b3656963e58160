/* When a run saves a checkpoint, and what becomes of its error. Every function does nothing where
 * there is no keeper. Thread rule: the model's thread. */
#ifndef FF_TRAIN_RUN_SAVES_H
#define FF_TRAIN_RUN_SAVES_H

#include "train/checkpoint/every.h"
#include "train/checkpoint/keeper.h"
#include "train/report/report.h"

typedef struct ff_saves {
    ff_keeper *keeper; /* NULL: no checkpoints are written */
    ff_every every;
    ff_report *report;   /* of notes */
    uint64_t saved_ns;   /* when the last checkpoint was begun */
    uint64_t saved_step; /* its steps */
} ff_saves;

/* Whether --checkpoint-every asks for one after this step. */
bool ff_saves_due_after_step(const ff_saves *saves, uint64_t steps);
/* After an epoch, counted from 1, of as many steps in all, and its evaluation; `best`: no earlier
 * one was as good. The last epoch is always saved. */
bool ff_saves_due_after_epoch(const ff_saves *saves, uint64_t steps, uint32_t epoch, bool last,
                              bool best);

/* A checkpoint of the model's values and this state; training continues while it is written. */
FF_MUST_USE ff_status ff_saves_take(ff_saves *saves, const ff_run_state *state, ff_error *error);
/* The path of the last one that is whole; NULL where there is none. */
const char *ff_saves_last(const ff_saves *saves);

/* The checkpoint of a run that a signal stops: *error, which says how far it got, then says that it
 * can be resumed. SIGTERM and SIGUSR1 come from schedulers, which start such a run again:
 * FF_PREEMPTED; else FF_INTERRUPTED. */
FF_MUST_USE ff_status ff_saves_stop(ff_saves *saves, const ff_run_state *state, int signal_number,
                                    ff_error *error);
/* After a failure of something else than training: what is trained stays, and *error says where. */
void ff_saves_fail(ff_saves *saves, const ff_run_state *state, ff_error *error);
/* At the end of a run. One that is done has its last checkpoint on the disk, or returns why not; of
 * one that failed with `status` a note says why not. */
FF_MUST_USE ff_status ff_saves_finish(ff_saves *saves, ff_status status, ff_error *error);

#endif
