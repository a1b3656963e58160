/* fftrain: trains a model on packed datasets. This file chooses the command; only it prints errors
 * and exits. */
#include "format/base/file.h"
#include "train/commands/command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *word;
    ff_status (*run)(int argc, char **argv, ff_error *error);
} commands[] = {{"evaluate", ff_command_evaluate}, {"predict", ff_command_predict},
                {"export", ff_command_export},     {"report", ff_command_report},
                {"lr-find", ff_command_lr_find},   {"diff", ff_command_diff},
                {"replay", ff_command_replay},     {"measure-net", ff_command_measure_net},
                {"runs", ff_command_runs}};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* libgomp's threads spin for milliseconds at every barrier before they sleep. That is fast on an
 * idle machine, but with other load they take the CPU from the thread that they wait for: measured
 * on two CPUs with two other busy processes, 400 samples/s instead of 2000. libgomp reads the spin
 * count from the environment before main begins, so the program sets it and executes itself again,
 * by its own path: ps shows the last part of that path. */
static void limit_spinning(char **argv) {
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    char *path = realpath("/proc/self/exe", NULL);
    if (path && setenv("GOMP_SPINCOUNT", "5000", 0) == 0) execv(path, argv);
    free(path);
}

static ff_status run(int argc, char **argv, ff_error *error) {
    for (int i = 0; argc > 1 && i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].word)) return commands[i].run(argc - 1, argv + 1, error);
    FF_TRY(ff_command_train(argc, argv, error));
    /* Man pages and completions cover all commands. */
    for (int i = 0; argc == 2 && !strcmp(argv[1], "--describe") && i < COMMANDS; i++)
        FF_TRY(commands[i].run(argc, argv, error));
    return FF_OK;
}

/* A closed pipe, as in `fftrain report RUN | head`, is a failed write. */
int main(int argc, char **argv) {
    ff_hold_standard_files();
    limit_spinning(argv);
    signal(SIGPIPE, SIG_IGN);
    ff_error error = {0};
    ff_status status = run(argc, argv, &error);
    errno = 0; /* an earlier write may have failed, whose reason is not known any more */
    if (status == FF_OK && (fflush(stdout) != 0 || ferror(stdout)))
        status = errno ? ff_fail_errno(&error, "cannot write to the standard output")
                       : ff_fail(&error, FF_IO, "cannot write to the standard output");
    if (status == FF_OK) return 0;
    fflush(stdout);
    fprintf(stderr, "fftrain: %s\n", error.message);
    return ff_exit_code(&error);
}
