/* A run given to a command: which of its checkpoints is meant, and the set that it evaluated on.
 *
 * Thread rule: one thread. */
#ifndef FF_TRAIN_COMMANDS_RUN_GIVEN_H
#define FF_TRAIN_COMMANDS_RUN_GIVEN_H

#include "train/checkpoint/checkpoint.h"

/* Whether a command may be given it first, without -c: a run or a checkpoint, or a file that is
 * named as weights are (.safetensors, .pth, .pt, .bin). */
bool ff_run_given_is(const char *path);

/* The checkpoint's folder: of a run its best one, else its last. NULL where `given` is neither. The
 * caller frees *path. */
FF_MUST_USE ff_status ff_run_given_checkpoint(const char *given, char **path, ff_error *error);
/* Prints to stderr which checkpoint of a run is taken, once it is open: an error stays one
 * sentence.
 */
void ff_run_given_tell(const char *given, const char *checkpoint);

/* The set on which the checkpoint's run evaluated, to be freed by the caller, and its content id;
 * `checkpoint`: as above, NULL: weights without a run. FF_USAGE where there is none. */
FF_MUST_USE ff_status ff_run_given_val(const char *checkpoint, char **data, char content[33],
                                       ff_error *error);

#endif
