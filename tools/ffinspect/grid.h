/* --grid: a contact sheet of samples, with what they are under each picture. */
#ifndef FF_FFINSPECT_GRID_H
#define FF_FFINSPECT_GRID_H

#include "format/set.h"
#include "tools/ffinspect/inspect.h"
#include "tools/ffinspect/splits.h"

/* Draws the sheet that the options ask for, of all splits of the list, and writes it to
 * options->png. `*sentence` says what was drawn; to be freed. */
FF_MUST_USE ff_status ff_inspect_grid(const ff_set *list, const ff_inspect_options *options,
                                      char **sentence, ff_error *error);

#endif
