/* Reads samples safely: mapped bytes only under the guard. */
#ifndef FF_FFINSPECT_ACCESS_H
#define FF_FFINSPECT_ACCESS_H

#include "format/reader.h"

/* Copies the tensor of a view to `to` (view->tensor_bytes). A shard that shrank is FF_IO with path
 * and offset. */
FF_MUST_USE ff_status ff_inspect_copy(const ff_dataset *dataset, const ff_view *view, void *to,
                                      ff_error *error);

/* The failure at the lowest place, of work shared by threads: the one that a single thread would
 * report, so that the message does not depend on the number of threads. Zeroed = none. */
typedef struct ff_first_failure {
    uint64_t place;
    ff_error error;
} ff_first_failure;

/* The caller holds its lock. */
void ff_inspect_note_failure(ff_first_failure *first, uint64_t place, const ff_error *error);

#endif
