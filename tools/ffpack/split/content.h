/* The content of a split's items that enters the listing's hash, so that a source whose items
 * changed but kept their sizes is noticed.
 *
 * Items that are arrays always keep their size: all of them count, up to 1 GiB, and beyond that
 * this number of bytes of items, evenly spaced. Changed image files mostly change their size; 64 of
 * them count in case all files have the same size. */
#ifndef FF_FFPACK_CONTENT_H
#define FF_FFPACK_CONTENT_H

#include "tools/ffpack/source/source.h"

/* Adds it to split->listing (ff_listing_add_content), which is finished. Up to `jobs` threads read,
 * one at a time hashes. Not for a split that can only be read from front to back. `skip`:
 * items that cannot be read are left out. */
FF_MUST_USE ff_status ff_content_add(const ff_source *source, const ff_source_split *split,
                                     int jobs, bool skip, ff_error *error);

#endif
