/* The name of a zip's member as the file has it. libarchive converts names that are marked as UTF-8
 * to the composed form of Unicode, in which the names of an unzipped folder need not be. Thread
 * rule: re-entrant. */
#ifndef FF_FFPACK_ARCHIVE_NAME_H
#define FF_FFPACK_ARCHIVE_NAME_H

#include "format/base/memory.h"

/* Reads the name from the local header that ends at `end`, where the member's data begins, and
 * begins at or after `begin`. `name` ends with a zero; empty without such a header. */
FF_MUST_USE ff_status ff_archive_zip_name(ff_buffer *name, int fd, const char *path, uint64_t begin,
                                          uint64_t end, ff_error *error);

#endif
