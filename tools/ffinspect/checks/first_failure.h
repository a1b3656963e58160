/* Failures of work that threads share. */
#ifndef FF_FFINSPECT_FIRST_FAILURE_H
#define FF_FFINSPECT_FIRST_FAILURE_H

#include "format/base/status.h"

#include <stdint.h>

/* The failure at the lowest place of work that threads share: the failure that a single thread
 * would report, so that the message does not depend on the number of threads. Zeroed = none. */
typedef struct ff_first_failure {
    uint64_t place;
    ff_error error;
} ff_first_failure;

/* The caller holds the lock that protects `first`. */
void ff_inspect_note_failure(ff_first_failure *first, uint64_t place, const ff_error *error);

#endif
