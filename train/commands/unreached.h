/* Options for epochs, steps, checkpoints or evaluations that a run does not reach. */
#ifndef FF_TRAIN_UNREACHED_H
#define FF_TRAIN_UNREACHED_H

#include "train/commands/settings.h"

/* Adds a note for each option without effect in this run, with the reason. FF_USAGE for --patience
 * without evaluations: the run would not end when the user expects. */
FF_MUST_USE ff_status ff_unreached_say(const ff_settings *settings, const ff_trainer *trainer,
                                       ff_session *session, ff_error *error);

#endif
