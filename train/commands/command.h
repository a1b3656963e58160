/* Room train/commands, floor 19: the command line of fftrain.
 *
 * settings_table.c has a row for each option of a run, settings.c parses options by these rows;
 * settings_values.c turns the values into the trainer's, and back. train.c is the command without a
 * name, in one process or as a rank of several (train_ranks.c). evaluate.c, predict.c, export.c,
 * report.c, runs.c, diff.c, replay.c and measure_net.c are the other commands, one file each; the
 * *_given.c files read the arguments that several commands share. habits.c recognizes options of
 * other trainers, unreached.c notes options that have no effect in this run.
 *
 * May include format, loader/device, train/checkpoint, train/comm/job, train/compute, train/debug,
 * train/evaluate, train/machine, train/net, train/predict, train/recipes, train/report, train/run,
 * train/sets, train/trainer.
 *
 * The commands of fftrain. Only they and main.c print to stdout. argv[0] is the program or the
 * command's name. */
#ifndef FF_TRAIN_COMMAND_H
#define FF_TRAIN_COMMAND_H

#include "format/cli/options.h"

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
