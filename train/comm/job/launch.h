/* Starts the ranks of a job on this machine (--ranks N): copies of this program. */
#ifndef FF_TRAIN_COMM_LAUNCH_H
#define FF_TRAIN_COMM_LAUNCH_H

#include "format/base/status.h"

#include <stdint.h>

/* Runs this program `count` times with argv as the ranks of one job, and waits for all; the ranks
 * find their numbers with ff_ranks_read. Rank 0 has this process's outputs. The others' stdout is
 * discarded; their stderr is printed with "rank 3: " before each line. SIGINT, SIGTERM, SIGUSR1 and
 * a terminal's stop are passed on. These signals stay blocked, so that a signal after the end of
 * all ranks changes nothing. No rank outlives this process, however the process ends.
 *
 * Once a rank has ended badly, the others have `timeout_ns` to report this and end; then they get
 * SIGTERM, and 5 s later SIGKILL. They get SIGKILL at once when all that are left are stopped.
 *
 * The status has the exit code of the rank that ended badly: of the first one with a code other
 * than 1 and 75, else with 1, else FF_PREEMPTED. A killed rank has failed, except by the signals
 * that are passed on. Ranks that were ended here do not count. FF_USAGE if this process is itself a
 * rank. Call it before threads start. */
FF_MUST_USE ff_status ff_ranks_start(int count, char **argv, uint64_t timeout_ns, ff_error *error);

#endif
