/* What is known of a run before its first step: the summary, and the output of --dry-run, --world,
 * --device-json and --json. Thread rule: one thread. */
#ifndef FF_TRAIN_COMMANDS_DRY_RUN_H
#define FF_TRAIN_COMMANDS_DRY_RUN_H

#include "train/commands/settings.h"
#include "train/machine/planned_device.h"

/* Makes `options` those of a run on the GPU that the file describes. The caller closes *planned,
 * which must outlive the trainer. The errors of ff_planned_device_open. */
FF_MUST_USE ff_status ff_dry_run_plan(ff_planned_device **planned, const char *device_json,
                                      ff_trainer_options *options, ff_error *error);

/* Prints the summary, unless --quiet, and the output of --dry-run and --world. planned: NULL = the
 * machine's own device. FF_NO_MEMORY if the run would not fit, after --dry-run has printed. */
FF_MUST_USE ff_status ff_dry_run_print(const ff_settings *settings, ff_trainer *trainer,
                                       ff_planned_device *planned, const ff_tuning *tuning,
                                       ff_error *error);
/* Prints the same as one JSON document. */
FF_MUST_USE ff_status ff_dry_run_json(const ff_settings *settings, const ff_trainer *trainer,
                                      const ff_planned_device *planned, ff_error *error);

#endif
