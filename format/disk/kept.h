/* State that a packing run saves for the run that continues it: small files in OUT.partial or
 * OUT.part-counts, each with two numbers, a metadata text and a note under one checksum. They are
 * committed like any other file (FORMAT.md, "Committing"), and are never part of a finished set.
 * Thread rule: pure. */
#ifndef FF_FORMAT_KEPT_H
#define FF_FORMAT_KEPT_H

#include "format/base/memory.h"

typedef struct ff_kept {
    uint64_t number[2];
    ff_buffer text, note;
} ff_kept;

void ff_kept_free(ff_kept *kept);

/* Commits DIRECTORY/NAME. */
FF_MUST_USE ff_status ff_kept_write(const ff_kept *kept, const char *directory, const char *name,
                                    ff_error *error);

/* The same for several processes that may write the file at the same time. The file is not synced:
 * after a power cut it may be broken. */
FF_MUST_USE ff_status ff_kept_replace(const ff_kept *kept, const char *directory, const char *name,
                                      ff_error *error);

/* Reads the file `path` into `kept`, which must be zeroed before and is freed by the caller, also
 * after a failure. FF_IO if there is no such file, FF_BAD_DATA if it is incomplete or broken. */
FF_MUST_USE ff_status ff_kept_read(ff_kept *kept, const char *path, ff_error *error);

#endif
