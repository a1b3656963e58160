/* A run as a command's argument: which of the run's checkpoints is meant, and the set on which the
 * run evaluated.
 *
 * Thread rule: one thread. */
#ifndef FF_TRAIN_COMMANDS_RUN_GIVEN_H
#define FF_TRAIN_COMMANDS_RUN_GIVEN_H

#include "train/checkpoint/checkpoint.h"

/* Whether the argument may come first, without -c: a run or a checkpoint, or a file with the
 * extension of weights (.safetensors, .pth, .pt, .bin). */
bool ff_run_given_is(const char *path);

/* The checkpoint's folder: a run's best checkpoint, else its last. NULL if `given` is neither a run
 * nor a checkpoint. The caller frees *path. */
FF_MUST_USE ff_status ff_run_given_checkpoint(const char *given, char **path, ff_error *error);
/* Prints to stderr which checkpoint of a run is taken, once it is open: an error stays one
 * sentence.
 */
void ff_run_given_tell(const char *given, const char *checkpoint);

/* The set on which the checkpoint's run evaluated, and the endpoint of its URL, which may be NULL,
 * to be freed by the caller; and its content id. `checkpoint`: as above, NULL: weights without a
 * run. FF_USAGE if the run has no such set. */
FF_MUST_USE ff_status ff_run_given_val(const char *checkpoint, char **data, char **endpoint,
                                       char content[33], ff_error *error);

#endif
