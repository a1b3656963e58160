/* Training on the ranks of a job, which --dp, --ranks or a launcher started. */
#ifndef FF_TRAIN_COMMANDS_TRAIN_RANKS_H
#define FF_TRAIN_COMMANDS_TRAIN_RANKS_H

#include "train/commands/settings.h"

/* Trains a run alone (job NULL) or as rank 0, which has the run's folder and reports. device: of
 * --dp; NULL = by the options. */
typedef ff_status ff_train_first(const ff_settings *settings, ff_session *session, ff_job *job,
                                 const char *device, ff_error *error);

/* Calls `first`; another rank trains without `first`; with --dp or --ranks, starts the ranks with
 * this process's arguments. */
FF_MUST_USE ff_status ff_train_ranks(const ff_settings *settings, ff_session *session, char **argv,
                                     ff_train_first *first, ff_error *error);

/* Sends the error that stopped this rank before it met the others to these, which would wait for
 * it. */
void ff_train_tell_ranks(const ff_settings *settings, ff_error *error);

/* FF_FAILED if ranks differ in their sets or in options, except the options that may differ among
 * machines. */
FF_MUST_USE ff_status ff_train_agree(const ff_settings *settings, const ff_trainer *trainer,
                                     ff_error *error);

#endif
