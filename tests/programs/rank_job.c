/* A job of ranks that only gather: for tests of rank variables, of the control channel and of
 * --ranks.
 *
 *     rank_job [--ranks N] [--steps K] [--timeout SECONDS] [--pause MS] [--fault RANK:KIND:STEP]
 *
 * KIND: kill, stop, exit, report, leave; late (with STEP: milliseconds before it comes). */
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "train/comm/job/channel.h"
#include "train/comm/job/launch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct settings {
    int ranks, steps, pause_ms, fault_rank, fault_step;
    double timeout;
    char fault[16];
} settings;

static ff_status break_it(const settings *given, ff_channel *channel, ff_error *error) {
    if (!strcmp(given->fault, "kill")) raise(SIGKILL);
    if (!strcmp(given->fault, "stop")) raise(SIGSTOP);
    if (!strcmp(given->fault, "exit")) exit(1);
    if (!strcmp(given->fault, "leave")) {
        ff_channel_close(&channel);
        exit(0);
    }
    return ff_fail(error, FF_FAILED, "out of memory");
}

/* One step: all ranks send their step, and whether a signal has come. */
static ff_status step(ff_channel *channel, const ff_ranks *ranks, int number, ff_buffer *parts,
                      ff_error *error) {
    int told[3] = {number, ranks->rank, ff_interrupt_signal()}, stops = 0;
    FF_TRY(ff_channel_gather(channel, told, sizeof told, parts, error));
    for (int i = 0; i < ranks->size; i++) {
        memcpy(told, parts[i].bytes, sizeof told);
        if (parts[i].length != sizeof told || told[0] != number || told[1] != i) abort();
        if (told[2]) stops = told[2];
        ff_buffer_free(&parts[i]);
    }
    if (!stops) return FF_OK;
    return ff_fail(error, FF_PREEMPTED, "stopped by %s at step %d", ff_interrupt_name(stops),
                   number);
}

static ff_status work(const settings *given, const ff_ranks *ranks, ff_error *error) {
    const ff_channel_options options = {.timeout_ns = (uint64_t)(given->timeout * 1e9)};
    ff_channel *channel = NULL;
    ff_buffer *parts = calloc((size_t)ranks->size, sizeof *parts);
    ff_status status;
    const bool breaks = ranks->rank == given->fault_rank;
    const uint64_t before = ff_now_ns();
    if (!parts) return ff_fail(error, FF_NO_MEMORY, "no memory");
    if (breaks && !strcmp(given->fault, "late")) usleep((useconds_t)given->fault_step * 1000);
    FF_TRY_DONE(ff_channel_open(&channel, ranks, &options, error));
    printf("rank %d is here\n", ranks->rank);
    if (ranks->rank == 0)
        printf("%s: %d ranks after %.3f s\n", ranks->family ? ranks->family : "alone", ranks->size,
               (double)(ff_now_ns() - before) * 1e-9);
    fflush(stdout);
    for (int i = 0; i < given->steps; i++) {
        if (breaks && i == given->fault_step && strcmp(given->fault, "late") != 0)
            FF_TRY_DONE(break_it(given, channel, error));
        FF_TRY_DONE(step(channel, ranks, i, parts, error));
        usleep((useconds_t)given->pause_ms * 1000);
    }
    if (ranks->rank == 0) printf("done\n");
done:
    if (channel) status = ff_channel_conclude(channel, status, error);
    ff_channel_close(&channel);
    free(parts);
    return status;
}

static ff_status run(char **argv, ff_error *error) {
    settings given = {.steps = 20, .timeout = 10, .pause_ms = 5, .fault_rank = -1};
    ff_ranks ranks;
    for (char **at = argv + 1; at[0] && at[1]; at += 2) {
        if (!strcmp(at[0], "--ranks")) given.ranks = atoi(at[1]);
        if (!strcmp(at[0], "--steps")) given.steps = atoi(at[1]);
        if (!strcmp(at[0], "--timeout")) given.timeout = atof(at[1]);
        if (!strcmp(at[0], "--pause")) given.pause_ms = atoi(at[1]);
        if (!strcmp(at[0], "--fault"))
            sscanf(at[1], "%d:%15[a-z]:%d", &given.fault_rank, given.fault, &given.fault_step);
    }
    FF_TRY(ff_ranks_read(&ranks, error));
    if (given.ranks && !ff_ranks_are_own(&ranks)) {
        ff_ranks_free(&ranks);
        return ff_ranks_start(given.ranks, argv, (uint64_t)(given.timeout * 1e9), error);
    }
    ff_interrupt_install(SIGUSR1);
    const ff_status status = work(&given, &ranks, error);
    ff_ranks_free(&ranks);
    return status;
}

int main(int argc, char **argv) {
    ff_error error = {0};
    (void)argc;
    if (run(argv, &error) == FF_OK) return 0;
    fprintf(stderr, "rank_job: %s\n", error.message);
    return ff_exit_code(&error);
}
