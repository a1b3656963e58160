/* --grid: a contact sheet of samples, with what they are under each picture. */
#ifndef FF_FFINSPECT_GRID_H
#define FF_FFINSPECT_GRID_H

#include "tools/ffinspect/inspect.h"

/* Draws the sheet that the options ask for and writes it to options->png. `*sentence` says what was
 * drawn; to be freed. `name` is the title. */
FF_MUST_USE ff_status ff_inspect_grid(ff_dataset *dataset, const char *name,
                                      const ff_inspect_options *options, char **sentence,
                                      ff_error *error);

#endif
