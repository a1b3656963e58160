/* What the log of a run (report.h) says of the options that it had. */
#ifndef FF_TRAIN_DEBUG_RUN_LOG_H
#define FF_TRAIN_DEBUG_RUN_LOG_H

#include <stdint.h>

/* The last step between `from` and `to`, neither included, after which the run went on with other
 * options for its updates than before; 0: there is none, or no log. */
uint64_t ff_run_log_change(const char *path, uint64_t from, uint64_t to);

#endif
