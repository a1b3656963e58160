/* The commands that made a split, for people and as JSON (format/reader/history.h). */
#ifndef FF_FFINSPECT_HISTORY_H
#define FF_FFINSPECT_HISTORY_H

#include "format/reader/reader.h"

#include <jansson.h>

/* Appends a line for each command, oldest first, and if something is wrong with the history, a line
 * that states the problem; each line ends with a newline. */
FF_MUST_USE ff_status ff_inspect_history(ff_buffer *out, const ff_dataset *dataset,
                                         ff_error *error);

/* Sets "history", an array with an object for each command, and "history_problem", a sentence or
 * null. */
FF_MUST_USE ff_status ff_inspect_json_history(json_t *object, const ff_dataset *dataset,
                                              ff_error *error);

#endif
