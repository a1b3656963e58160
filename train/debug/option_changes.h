/* Finds the steps at which a run's log (report.h) records changed options. */
#ifndef FF_TRAIN_DEBUG_OPTION_CHANGES_H
#define FF_TRAIN_DEBUG_OPTION_CHANGES_H

#include <stdint.h>

/* The last step between `from` and `to`, neither included, after which the options of the updates
 * changed; 0: none, or the log cannot be read. */
uint64_t ff_option_changes_last(const char *path, uint64_t from, uint64_t to);

#endif
