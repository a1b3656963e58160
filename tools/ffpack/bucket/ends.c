#include "tools/ffpack/bucket/ends.h"

#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/base/path.h"
#include "format/disk/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* *from = where the samples end: what follows is fetched. */
static ff_status find_tail(ff_storage *storage, const char *name, ff_object *object, uint64_t *from,
                           ff_error *error) {
    uint8_t end[FF_SEEK_FOOTER_BYTES], bytes[FF_FOOTER_BYTES];
    uint64_t after = 0;
    ff_shard_footer footer;
    if (object->bytes < FF_HEADER_BYTES + FF_FOOTER_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s/%s: too short for a shard", ff_storage_url(storage),
                       name);
    FF_TRY(
        ff_storage_read(storage, name, object, object->bytes - sizeof end, sizeof end, end, error));
    if (ff_load_u32(end + 5) == FF_SEEK_FOOTER_MAGIC)
        after = FF_FRAME_HEADER_BYTES + (uint64_t)ff_load_u32(end) * FF_SEEK_ROW_BYTES +
                FF_SEEK_FOOTER_BYTES;
    if (object->bytes < FF_HEADER_BYTES + FF_FOOTER_BYTES + after)
        return ff_fail(error, FF_BAD_DATA, "%s/%s: too short for its tables",
                       ff_storage_url(storage), name);
    const uint64_t at = object->bytes - after - FF_FOOTER_BYTES;
    FF_TRY(ff_storage_read(storage, name, object, at, sizeof bytes, bytes, error));
    FF_TRY(ff_shard_footer_decode(&footer, bytes, at, name, error));
    *from = footer.samples_end;
    if (*from >= FF_HEADER_BYTES && *from <= at) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s/%s: its footer is broken", ff_storage_url(storage),
                   name);
}

/* One part of the object into the file. */
static ff_status fetch(ff_storage *storage, const char *name, ff_object *object, uint64_t offset,
                       uint64_t bytes, int fd, const char *path, ff_error *error) {
    uint8_t *part;
    FF_TRY(ff_alloc(&part, bytes, 1, "the tables of a shard", error));
    ff_status status = ff_storage_read(storage, name, object, offset, bytes, part, error);
    if (status == FF_OK) status = ff_write_at(fd, path, part, bytes, offset, error);
    free(part);
    return status;
}

ff_status ff_ends_fetch(ff_storage *storage, const char *name, const ff_object *object,
                        const char *directory, uint32_t number, ff_error *error) {
    ff_object own = *object;
    uint64_t from = 0;
    char base[32], *path = NULL;
    int fd = -1;
    ff_status status;
    ff_shard_name(base, number);
    FF_TRY(ff_path_join(&path, directory, base, error));
    FF_TRY_DONE(find_tail(storage, name, &own, &from, error));
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, (off_t)own.bytes))
        FF_TRY_DONE(ff_fail_errno(error, "%s: cannot write", path));
    FF_TRY_DONE(fetch(storage, name, &own, 0, FF_HEADER_BYTES, fd, path, error));
    status = fetch(storage, name, &own, from, own.bytes - from, fd, path, error);
done:
    if (fd >= 0) close(fd);
    free(path);
    return status;
}
