/* The error for a SOURCE that no format fits. */
#ifndef FF_FFPACK_UNRECOGNIZED_H
#define FF_FFPACK_UNRECOGNIZED_H

#include "tools/ffpack/source/source.h"

/* FF_BAD_DATA with what was found and the three kinds of sources whose files' endings are nearest
 * to `path`; for a table also the names of its columns. `head`: the file's first bytes; NULL for a
 * folder. */
FF_MUST_USE ff_status ff_source_unrecognized(const char *path, const unsigned char *head,
                                             size_t head_bytes, ff_error *error);

#endif
