/* Keeps the checkpoints of a run: writes them from a thread while training goes on, keeps the
 * newest and the best, and finds the one from which a run goes on.
 *
 * A checkpoint that cannot be written (a full disk) does not end a run: the older ones stay, and
 * ff_keeper_note says it. Thread rule: the model's thread. */
#ifndef FF_TRAIN_KEEPER_H
#define FF_TRAIN_KEEPER_H

#include "train/checkpoint/capture.h"

typedef struct ff_keeper ff_keeper;

typedef struct ff_keeper_options {
    const char *directory; /* of the checkpoints; exists */
    int keep;              /* the newest ones, at least 1; the best stays too */
} ff_keeper_options;

/* Takes the capture; copies the options. On failure *keeper = NULL and the capture is destroyed. */
FF_MUST_USE ff_status ff_keeper_create(ff_keeper **keeper, ff_capture *capture,
                                       const ff_keeper_options *options, ff_error *error);
/* Waits for the thread. NULL is accepted. */
void ff_keeper_destroy(ff_keeper **keeper);

/* Copies the model's values, after the previous checkpoint is written, and starts writing
 * step-N, N = the steps done. `best`: the link `best` will point to it. Errors are those of the
 * copy. */
FF_MUST_USE ff_status ff_keeper_save(ff_keeper *keeper, const ff_run_state *state, bool best,
                                     ff_error *error);
/* Waits until the last checkpoint is written, and returns its error. */
FF_MUST_USE ff_status ff_keeper_finish(ff_keeper *keeper, ff_error *error);
/* Why a checkpoint could not be written, once; else NULL. Valid until the next call. */
const char *ff_keeper_note(ff_keeper *keeper);
/* Of the last checkpoint: its path; NULL before the first is written. */
const char *ff_keeper_last(const ff_keeper *keeper);

/* Opens the newest checkpoint of a folder that is whole, of at most `last` steps. *note: NULL, or a
 * sentence about newer ones that are damaged, freed by the caller. FF_USAGE where there is none,
 * FF_BAD_DATA where all are damaged. */
FF_MUST_USE ff_status ff_keeper_newest(ff_checkpoint **checkpoint, const char *directory,
                                       uint64_t last, char **note, ff_error *error);

#endif
