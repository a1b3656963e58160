/* --grid: a contact sheet of samples, with labels under the pictures. */
#ifndef FF_FFINSPECT_GRID_H
#define FF_FFINSPECT_GRID_H

#include "format/disk/set.h"
#include "tools/ffinspect/facts/inspect.h"
#include "tools/ffinspect/facts/splits.h"

/* Draws the sheet of all splits of the list and writes it to options->png. `*sentence` describes
 * what was drawn; freed by the caller. */
FF_MUST_USE ff_status ff_inspect_grid(const ff_set *list, const ff_inspect_options *options,
                                      char **sentence, ff_error *error);

#endif
