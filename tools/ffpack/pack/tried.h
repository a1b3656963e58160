/* Tries some items in a dry run, so that it does not promise what packing refuses. */
#ifndef FF_FFPACK_TRIED_H
#define FF_FFPACK_TRIED_H

#include "tools/ffpack/run/run.h"

/* Makes samples of image files as packing would: all items of a split up to FF_TRIED_ITEMS, else
 * FF_TRIED_ITEMS items evenly spaced (the first ones, if the source is read from front to back).
 * Fails as packing would; with --on-error skip it counts what would be left out. Notes in the
 * report the number of items tried, if not all, and the number that would be left out. */
#define FF_TRIED_ITEMS 1000
FF_MUST_USE ff_status ff_tried_items(const ff_run *run, ff_error *error);

#endif
