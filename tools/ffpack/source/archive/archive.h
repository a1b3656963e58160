/* Archives read from front to back through libarchive, in memory: tar and zip, plain or compressed
 * (gzip, bzip2, xz, zstd). No member's name is ever written to disk.
 *
 * Nested: members that are tars themselves are entered, as in ImageNet's train archive; their
 * members are named "INNER/NAME", INNER without its ".tar".
 * Names keep the bytes that the archive has: in zips and pax headers libarchive would compose their
 * Unicode (name.h).
 * Refused (FF_BAD_DATA): absolute names, names with a component "..", names with a zero byte or
 * above FF_KEY_LIMIT_BYTES, encrypted members, sparse members, and more than FF_ARCHIVE_RATIO
 * unpacked bytes for each packed one (after the first FF_ARCHIVE_FREE_BYTES).
 * Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_ARCHIVE_H
#define FF_FFPACK_SOURCE_ARCHIVE_H

#include "format/base/memory.h"

#define FF_ARCHIVE_RATIO      UINT64_C(400)
#define FF_ARCHIVE_FREE_BYTES (UINT64_C(1) << 30)

typedef struct ff_archive ff_archive;

typedef enum ff_archive_kind {
    FF_ARCHIVE_FILE,
    FF_ARCHIVE_FOLDER,
    FF_ARCHIVE_LINK, /* symbolic or hard: has no bytes of its own */
    FF_ARCHIVE_OTHER /* devices, pipes */
} ff_archive_kind;

typedef struct ff_archive_member {
    const char *name; /* without leading "./" and trailing '/'; valid until the next call; NULL at
                         the end of the archive */
    ff_archive_kind kind;
    uint64_t bytes;
    uint64_t ordinal; /* among all members, from 0; the same in every pass */
    uint64_t offset;  /* of its first byte in the file; only if ff_archive_is_plain */
} ff_archive_member;

/* Whether a file that begins with `head` (not decompressed) is an archive, compressed or not. A
 * guess from magic numbers; only opening is certain. */
bool ff_archive_looks_like(const unsigned char *head, size_t head_bytes);

/* Whether one of the first members of the archive `path` is a file whose base name `wanted`
 * accepts. False if it cannot be read, with the reason in *error. */
bool ff_archive_holds(const char *path, bool (*wanted)(const char *base), ff_error *error);

/* FF_BAD_DATA if `path` is not such an archive; errors name path and place. */
FF_MUST_USE ff_status ff_archive_open(ff_archive **archive, const char *path, bool nested,
                                      ff_error *error);

/* The next member, folders too. member->name = NULL at the end. */
FF_MUST_USE ff_status ff_archive_next(ff_archive *archive, ff_archive_member *member,
                                      ff_error *error);

/* Up to `size` bytes of the current member; *got is less only at its end. */
FF_MUST_USE ff_status ff_archive_read(ff_archive *archive, void *to, size_t size, size_t *got,
                                      ff_error *error);

/* Whether the members' bytes are stored uncompressed in the file (a plain tar), so that they can be
 * read at their offsets in any order. Known after the first ff_archive_next; false for nested
 * archives with a compressed inner one. */
bool ff_archive_is_plain(const ff_archive *archive);

void ff_archive_close(ff_archive **archive);

#endif
