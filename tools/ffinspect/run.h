/* Room tools/ffinspect, floor 11: shows and proves what a packed set holds.
 *
 * run.c dispatches to one view a file: summary.c, json.c, sample.c, find.c, document.c, npy.c;
 * sheet.c and grid.c draw.
 *
 * May include format, loader/draw, loader/host, loader/sequence, tools/ffinspect/checks,
 * tools/ffinspect/facts.
 *
 * Runs the options on every split of the path and prints the results. */
#ifndef FF_FFINSPECT_RUN_H
#define FF_FFINSPECT_RUN_H

#include "tools/ffinspect/facts/inspect.h"

/* FF_USAGE for a combination of options that makes no sense. */
FF_MUST_USE ff_status ff_inspect_check_options(const ff_inspect_options *options, ff_error *error);

/* Prints to standard output. Problems found by --verify are printed, and FF_BAD_DATA or FF_IO is
 * returned at the end. */
FF_MUST_USE ff_status ff_inspect_run(const ff_inspect_options *options, ff_error *error);

#endif
