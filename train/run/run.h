/* Room train/run, floor 18: a whole training run.
 *
 * session.c holds the folder, finds the checkpoint from which the run resumes and the options that
 * it may change. This header trains: warm-up, epochs of steps, evaluations, lines of the report,
 * until the end or a signal. saves.c decides when to write a checkpoint; ranks.c lets the ranks
 * agree between epochs. diagnose.c runs the stages alone and reports which one is slow.
 *
 * May include format, train/checkpoint, train/compute, train/debug, train/evaluate, train/net,
 * train/predict, train/report, train/trainer.
 *
 * A training run: epochs of steps, with evaluations and reports. */
#ifndef FF_TRAIN_RUN_H
#define FF_TRAIN_RUN_H

#include "train/checkpoint/every.h"
#include "train/checkpoint/keeper.h"
#include "train/report/report.h"
#include "train/trainer/trainer.h"

typedef struct ff_run_options {
    ff_keeper *keeper; /* NULL: no checkpoints are written */
    ff_every every;
    ff_best_by best_by;
    const ff_run_state
        *from;             /* the state of the checkpoint that the model holds; NULL: a new run */
    const char *from_path; /* of that checkpoint */
    const char *folder;    /* the run's folder; NULL: none */
    const char *hashes;    /* file of hashes (debug/hashes.h); NULL: none */
    int64_t hash_every;    /* steps; or FF_HASHES_CHOSEN, 0 = none */
    bool may_be_complete;  /* resuming a complete run does nothing, and is not an error */
    /* Called once before the first step, except for a complete run; may be NULL. */
    ff_status (*begins)(void *context, ff_error *error);
    void *context;
} ff_run_options;

/* Trains to the end of the run, or until --patience ends it; the trainer cannot be used afterwards.
 * Reports every epoch, and the end, also of a run that fails. FF_FAILED if the loss is NaN or
 * infinite (debug/bad_loss.h). After a signal, at the end of a step, with the results so far:
 * FF_PREEMPTED if a checkpoint was saved for SIGTERM or SIGUSR1, else FF_INTERRUPTED. The loader's
 * errors. */
FF_MUST_USE ff_status ff_run(ff_trainer *trainer, ff_report *report, const ff_run_options *options,
                             ff_error *error);

#endif
