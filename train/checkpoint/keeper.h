/* Keeps the checkpoints of a run: writes them from a thread while training continues, removes and
 * links checkpoints as keeping.h decides, and finds the checkpoint from which a run resumes.
 *
 * A checkpoint that cannot be written (a full disk) does not end a run: older checkpoints stay, and
 * ff_keeper_note returns the error. Thread rule: the model's thread. */
#ifndef FF_TRAIN_KEEPER_H
#define FF_TRAIN_KEEPER_H

#include "train/checkpoint/capture.h"
#include "train/checkpoint/keeping.h"

typedef struct ff_keeper ff_keeper;

typedef struct ff_keeper_options {
    const char *directory; /* folder of the checkpoints; must exist */
    int keep;              /* number of newest checkpoints kept, at least 1; the best stays too */
    ff_best_by best_by;
    uint32_t views; /* views of this run's evaluations */
    uint64_t from;  /* the step that the run resumes from; 0: a new run */
} ff_keeper_options;

/* Reads which checkpoints exist, and changes none. Takes ownership of the capture; copies the
 * options. On failure *keeper = NULL and the capture is destroyed. */
FF_MUST_USE ff_status ff_keeper_create(ff_keeper **keeper, ff_capture *capture,
                                       const ff_keeper_options *options, ff_error *error);
/* Call once, before the run's first step. Checkpoints newer than `from` leave the run's line: their
 * folders move to branch-N in the directory, with links `last` and `best` of their own. Folders
 * that a killed process left half written are removed. *note: NULL, or a sentence about the
 * checkpoints that moved, freed by the caller. */
FF_MUST_USE ff_status ff_keeper_begin(ff_keeper *keeper, char **note, ff_error *error);
/* For a run that is not continued because it is complete: removes folders that a killed process
 * left half written or half removed, and sets the links `last` and `best` if the process was killed
 * after it had written its last checkpoint and before it set them. */
FF_MUST_USE ff_status ff_keeper_complete(const ff_keeper *keeper, ff_error *error);
/* Waits for the thread. NULL is accepted. */
void ff_keeper_destroy(ff_keeper **keeper);

/* Waits until the previous checkpoint is written, copies the model's values, and starts writing
 * step-N, N = the steps done. Returns the errors of the copy. */
FF_MUST_USE ff_status ff_keeper_save(ff_keeper *keeper, const ff_run_state *state, ff_error *error);
/* Waits until the last checkpoint is written, and returns its error. */
FF_MUST_USE ff_status ff_keeper_finish(ff_keeper *keeper, ff_error *error);
/* Why a checkpoint could not be written, once; else NULL. Valid until the next call. */
const char *ff_keeper_note(ff_keeper *keeper);
/* The path of the last checkpoint; NULL before the first is written. */
const char *ff_keeper_last(const ff_keeper *keeper);
/* The seconds that the last checkpoint took, from the copy to the disk. While it is being written:
 * at least the seconds so far. 0 before the first. */
double ff_keeper_took(const ff_keeper *keeper);
/* The evaluation of the checkpoint that `best` points to; epoch 0 without one. */
ff_evaluated ff_keeper_best(const ff_keeper *keeper);

/* Opens the newest undamaged checkpoint of a folder's line with at most `last` steps. The link
 * `last` ends the line. *note: NULL, or a sentence about newer checkpoints that are damaged, freed
 * by the caller. FF_USAGE if the line is empty, FF_BAD_DATA if all its checkpoints are damaged. */
FF_MUST_USE ff_status ff_keeper_newest(ff_checkpoint **checkpoint, const char *directory,
                                       uint64_t last, char **note, ff_error *error);

#endif
