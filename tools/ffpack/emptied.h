/* Classes that lost all of their items to --on-error skip. */
#ifndef FF_FFPACK_EMPTIED_H
#define FF_FFPACK_EMPTIED_H

#include "tools/ffpack/source/source.h"

/* Compares the classes that a listed split has items of with those of the packed split in `folder`.
 * FF_BAD_DATA naming the first class of which nothing is left. */
FF_MUST_USE ff_status ff_emptied_check(const ff_source_split *split, const char *folder,
                                       ff_error *error);

#endif
