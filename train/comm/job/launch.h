/* Starts the ranks of a job on this machine (--ranks N): copies of this program. */
#ifndef FF_TRAIN_COMM_LAUNCH_H
#define FF_TRAIN_COMM_LAUNCH_H

#include "format/base/status.h"

#include <stdint.h>

/* Runs this program `count` times with argv as ranks of one job, which ff_ranks_read tells them,
 * and waits for all. Rank 0 has this process's outputs; the others' stdout is discarded, their
 * stderr comes with "rank 3: " before each line. SIGINT, SIGTERM and SIGUSR1 are passed on, and a
 * terminal's stop; they stay blocked, so that one that comes when all ranks have ended changes
 * nothing. No rank outlives this process, however that ends.
 *
 * Once a rank has ended badly the others have `timeout_ns` to say so and end, then get SIGTERM and
 * 5 s later SIGKILL; SIGKILL at once when all that are left are stopped.
 *
 * The status has the exit code of the rank that ended badly: of the first that did so with another
 * code than 1 and 75, else with 1, else FF_PREEMPTED. One that was killed has failed, but for the
 * signals that are passed on. Those that were ended here do not count. FF_USAGE where this process
 * is a rank itself.
 * Call it before threads start. */
FF_MUST_USE ff_status ff_ranks_start(int count, char **argv, uint64_t timeout_ns, ff_error *error);

#endif
