/* Reads mapped files. If a file shrinks or its disk fails, reading the mapping raises SIGBUS, which
 * a guard (format/base/guard.h) turns into FF_IO with path and offset. Two harms raise nothing: the
 * rest of the last page of a file that was cut reads as zeros, and a file that was written over
 * reads as the other one. So each file has two MARKS: checksums in it that were read when it was
 * opened. One lies after all that is read: a cut file has zeros or no page there. One depends on
 * all content: another file has another one. Bytes that were read while the marks were still there
 * are the file's own: the marks are looked at after each read.
 * Private to format/. Thread rule: any thread. */
#ifndef FF_FORMAT_MAPPED_H
#define FF_FORMAT_MAPPED_H

#include "format/base/bytes.h"
#include "format/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct ff_mapped {
    const char *path;   /* for errors; the owner's */
    const uint8_t *map; /* the whole file, read-only; NULL = not mapped */
    struct ff_file_mark {
        uint64_t offset, value;
    } mark[2];
} ff_mapped;

#define FF_MAPPED_FAILED "the file shrank, was overwritten or failed while it was read"

/* Whether the file's marks are still there, after all reads before this call. Call it under
 * ff_guard_run. */
static inline bool ff_mapped_is_whole(const ff_mapped *file) {
    const struct ff_file_mark *mark = file->mark;
    atomic_thread_fence(memory_order_acquire);
    return ff_load_u64(file->map + mark[0].offset) == mark[0].value &&
           ff_load_u64(file->map + mark[1].offset) == mark[1].value;
}

/* XXH3-64 of mapped bytes, guarded; FF_IO with path and offset if they cannot be read, or may be
 * another file's. */
FF_MUST_USE ff_status ff_mapped_checksum(const ff_mapped *file, uint64_t offset, uint64_t bytes,
                                         uint64_t *checksum, ff_error *error);
/* Copies bytes from a mapping; as above. */
FF_MUST_USE ff_status ff_mapped_copy(void *to, const ff_mapped *file, uint64_t offset,
                                     uint64_t bytes, ff_error *error);

#endif
