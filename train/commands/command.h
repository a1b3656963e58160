/* The commands of fftrain. Only they and main.c print to stdout. argv[0] is the program or the
 * command's name. */
#ifndef FF_TRAIN_COMMAND_H
#define FF_TRAIN_COMMAND_H

#include "format/base/options.h"

FF_MUST_USE ff_status ff_command_train(int argc, char **argv, ff_error *error);
FF_MUST_USE ff_status ff_command_lr_find(int argc, char **argv, ff_error *error);
FF_MUST_USE ff_status ff_command_evaluate(int argc, char **argv, ff_error *error);
FF_MUST_USE ff_status ff_command_predict(int argc, char **argv, ff_error *error);
FF_MUST_USE ff_status ff_command_export(int argc, char **argv, ff_error *error);
FF_MUST_USE ff_status ff_command_diff(int argc, char **argv, ff_error *error);
FF_MUST_USE ff_status ff_command_replay(int argc, char **argv, ff_error *error);
FF_MUST_USE ff_status ff_command_measure_net(int argc, char **argv, ff_error *error);
FF_MUST_USE ff_status ff_command_report(int argc, char **argv, ff_error *error);
FF_MUST_USE ff_status ff_command_runs(int argc, char **argv, ff_error *error);

#endif
