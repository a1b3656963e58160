/* libarchive's read callbacks for an archive. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_ARCHIVE_RANGE_H
#define FF_FFPACK_ARCHIVE_RANGE_H

#include "format/base/status.h"

#include <archive.h>
#include <stddef.h>
#include <stdint.h>

/* The part of a file that is an archive: the whole file, or a tar inside a plain tar. */
typedef struct ff_archive_range {
    int fd;
    const char *path;
    uint64_t begin, end, at;
    size_t chunk_bytes;
    unsigned char *chunk; /* [chunk_bytes] owned */
    ff_error failed;      /* the error of reading the file */
} ff_archive_range;

/* Opens `reader` on a range, which must outlive it, or on the current member of the archive
 * `outer`. Returns libarchive's result. */
int ff_archive_range_open(struct archive *reader, ff_archive_range *from);
int ff_archive_member_open(struct archive *reader, struct archive *outer);

#endif
