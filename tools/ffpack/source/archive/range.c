#include "tools/ffpack/source/archive/range.h"

#include "format/base/read.h"

#include <errno.h>
#include <stdio.h>

static la_ssize_t range_read(struct archive *reader, void *context, const void **bytes) {
    ff_archive_range *from = context;
    uint64_t left = from->end - from->at;
    size_t size = left < from->chunk_bytes ? (size_t)left : from->chunk_bytes;
    if (size &&
        ff_read_at(from->fd, from->path, from->chunk, size, from->at, &from->failed) != FF_OK) {
        archive_set_error(reader, EIO, "the file cannot be read");
        return -1;
    }
    from->at += size;
    *bytes = from->chunk;
    return (la_ssize_t)size;
}

static la_int64_t range_skip(struct archive *reader, void *context, la_int64_t wanted) {
    (void)reader;
    ff_archive_range *from = context;
    uint64_t left = from->end - from->at, skip = wanted > 0 ? (uint64_t)wanted : 0;
    if (skip > left) skip = left;
    from->at += skip;
    return (la_int64_t)skip;
}

static la_int64_t range_seek(struct archive *reader, void *context, la_int64_t offset, int whence) {
    ff_archive_range *from = context;
    int64_t size = (int64_t)(from->end - from->begin);
    int64_t base = whence == SEEK_SET   ? 0
                   : whence == SEEK_CUR ? (int64_t)(from->at - from->begin)
                                        : size;
    int64_t to;
    if (__builtin_add_overflow(base, offset, &to) || to < 0 || to > size) {
        archive_set_error(reader, EINVAL, "an offset outside the file");
        return ARCHIVE_FATAL;
    }
    from->at = from->begin + (uint64_t)to;
    return to;
}

/* The next piece of the outer archive's member. */
static la_ssize_t member_read(struct archive *reader, void *context, const void **bytes) {
    struct archive *outer = context;
    size_t size;
    la_int64_t offset;
    int result = archive_read_data_block(outer, bytes, &size, &offset);
    if (result == ARCHIVE_EOF) return 0;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
        archive_set_error(reader, EIO, "%s", archive_error_string(outer));
        return -1;
    }
    return (la_ssize_t)size;
}

/* Step by step: archive_read_open2 and the like continue when they cannot allocate their state. */
static int open_with(struct archive *reader, void *context) {
    int result = archive_read_set_callback_data(reader, context);
    return result == ARCHIVE_OK ? archive_read_open1(reader) : result;
}

int ff_archive_range_open(struct archive *reader, ff_archive_range *from) {
    archive_read_set_read_callback(reader, range_read);
    archive_read_set_skip_callback(reader, range_skip);
    archive_read_set_seek_callback(reader, range_seek);
    return open_with(reader, from);
}

int ff_archive_member_open(struct archive *reader, struct archive *outer) {
    archive_read_set_read_callback(reader, member_read);
    return open_with(reader, outer);
}
