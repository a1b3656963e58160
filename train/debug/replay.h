/* Runs a step of an old run again and shows what it computes. One thread at a time. */
#ifndef FF_TRAIN_DEBUG_REPLAY_H
#define FF_TRAIN_DEBUG_REPLAY_H

#include "train/trainer/trainer.h"

#include <stdio.h>

typedef struct ff_replay_options {
    uint64_t step;      /* the step to show, from 1 */
    const char *hashes; /* new file for the hashes of all steps (hashes.h); NULL: none */
    const char *log;    /* the run's own hashes, for its loss; NULL: none */
} ff_replay_options;

/* Runs the steps up to options->step again. They begin at the trainer's first step, whose values
 * the model must have. Prints of the last step: its loss, a row for each operation's output and its
 * gradient, a row for each trained parameter before the step and its gradient, the first value that
 * is not finite, and its samples. The trainer must not capture graphs, and cannot be used
 * afterwards. FF_FAILED if the loss of an earlier step is not finite; the loader's and the device's
 * errors. */
FF_MUST_USE ff_status ff_replay(ff_trainer *trainer, const ff_replay_options *options, FILE *out,
                                ff_error *error);

#endif
