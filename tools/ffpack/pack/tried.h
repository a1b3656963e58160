/* What a dry run tries, so that it does not promise what packing refuses. */
#ifndef FF_FFPACK_TRIED_H
#define FF_FFPACK_TRIED_H

#include "tools/ffpack/run/run.h"

/* Makes samples of image files as packing would: of all items of a split up to FF_TRIED_ITEMS, else
 * of as many, evenly spaced (of a source that is read from front to back, the first ones). Fails as
 * packing would; with --on-error skip it counts what would be left out. Notes in the report how
 * many it tried where these were not all, and how many would be left out. */
#define FF_TRIED_ITEMS 1000
FF_MUST_USE ff_status ff_tried_items(const ff_run *run, ff_error *error);

#endif
