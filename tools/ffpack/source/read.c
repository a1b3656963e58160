/* Reading the bytes of items, and folders. */
#include "tools/ffpack/source/disk.h"
#include "tools/ffpack/source/source.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENCODED_LIMIT_BYTES (UINT64_C(2) << 30)
enum { AHEAD_BYTES = 256 * 1024 };

struct ff_source_reader {
    const ff_source *source;
    uint32_t part; /* of the window */
    uint64_t offset;
    size_t length;
    unsigned char *window;
    size_t capacity;
    ff_buffer path;
};

ff_status ff_source_reader_create(ff_source_reader **out, const ff_source *source,
                                  ff_error *error) {
    *out = NULL;
    ff_source_reader *reader;
    FF_TRY(ff_alloc(&reader, 1, sizeof *reader, "a source reader", error));
    reader->source = source;
    reader->part = FF_PART_FILE;
    *out = reader;
    return FF_OK;
}

void ff_source_reader_destroy(ff_source_reader **reader) {
    if (!*reader) return;
    free((*reader)->window);
    ff_buffer_free(&(*reader)->path);
    free(*reader);
    *reader = NULL;
}

static ff_status read_file(ff_source_reader *reader, const ff_source_split *split,
                           const ff_item *item, ff_error *error) {
    ff_buffer *path = &reader->path;
    path->length = 0;
    reader->length = 0;
    FF_TRY(ff_buffer_printf(path, error, "%s/%.*s", split->root, (int)item->key_bytes,
                            (const char *)item->key));
    int fd;
    uint64_t bytes;
    FF_TRY(ff_disk_open(path->bytes, &fd, &bytes, error));
    ff_status status = FF_OK;
    if (bytes != item->bytes)
        status = ff_fail(error, FF_BAD_DATA,
                         "%s: changed since it was listed: has %" PRIu64 " bytes, had %" PRIu64,
                         path->bytes, bytes, item->bytes);
    else if (bytes > ENCODED_LIMIT_BYTES)
        status = ff_fail(error, FF_BAD_DATA, "%s: has %" PRIu64 " bytes, more than %" PRIu64,
                         path->bytes, bytes, ENCODED_LIMIT_BYTES);
    if (status == FF_OK)
        status =
            ff_reserve(&reader->window, &reader->capacity, bytes + 1, 1, "an image file", error);
    if (status == FF_OK) status = ff_disk_read_at(fd, path->bytes, reader->window, bytes, 0, error);
    ff_disk_close(&fd);
    return status;
}

ff_status ff_source_read(ff_source_reader *reader, const ff_source_split *split,
                         const ff_item *item, const unsigned char **bytes, ff_error *error) {
    if (item->part == FF_PART_FILE) {
        reader->part = FF_PART_FILE;
        FF_TRY(read_file(reader, split, item, error));
        *bytes = reader->window;
        return FF_OK;
    }
    uint64_t end = reader->offset + reader->length;
    bool same_part = item->part == reader->part;
    if (!same_part || item->offset < reader->offset || item->offset + item->bytes > end) {
        const ff_source_part *part = &reader->source->part[item->part];
        /* In order the window runs ahead; at the end of the part it gets what there is. */
        bool in_order = same_part && item->offset >= reader->offset && item->offset <= end;
        size_t wanted = item->bytes;
        FF_TRY(ff_reserve(&reader->window, &reader->capacity,
                          wanted > AHEAD_BYTES ? wanted : AHEAD_BYTES, 1, "an item", error));
        reader->length = 0;
        FF_TRY(ff_disk_read_some(part->fd, part->path, reader->window, wanted,
                                 in_order && wanted < AHEAD_BYTES ? AHEAD_BYTES : wanted,
                                 item->offset, &reader->length, error));
        reader->part = item->part;
        reader->offset = item->offset;
    }
    *bytes = reader->window + (item->offset - reader->offset);
    return FF_OK;
}

const char *ff_source_item_name(const ff_source *source, const ff_source_split *split,
                                const ff_item *item, char *text, size_t size) {
    if (item->part == FF_PART_FILE)
        snprintf(text, size, "%s/%.*s", split->root, (int)item->key_bytes, (const char *)item->key);
    else
        snprintf(text, size, "%s: item %.*s", source->part[item->part].path, (int)item->key_bytes,
                 (const char *)item->key);
    return text;
}

/* ---- folders ------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b, void *bytes) {
    size_t first, second;
    memcpy(&first, a, sizeof first);
    memcpy(&second, b, sizeof second);
    return strcmp((char *)bytes + first, (char *)bytes + second);
}

static ff_status add_name(ff_names *names, size_t *length, const char *name, ff_error *error) {
    size_t bytes = strlen(name) + 1;
    FF_TRY(ff_reserve(&names->bytes, &names->capacity, *length + bytes, 1, "file names", error));
    FF_TRY(ff_reserve(&names->offset, &names->offset_capacity, names->count + 1,
                      sizeof *names->offset, "file names", error));
    memcpy(names->bytes + *length, name, bytes);
    names->offset[names->count++] = *length;
    *length += bytes;
    return FF_OK;
}

ff_status ff_names_read(ff_names *names, const char *path,
                        bool (*keep)(const char *name, unsigned char type), ff_error *error) {
    *names = (ff_names){0};
    DIR *folder = opendir(path);
    if (!folder) return ff_fail_errno(error, "%s: cannot list", path);
    ff_status status = FF_OK;
    size_t length = 0;
    while (status == FF_OK) {
        errno = 0;
        const struct dirent *found = readdir(folder);
        if (!found) {
            if (errno) status = ff_fail_errno(error, "%s: cannot list", path);
            break;
        }
        if (!strcmp(found->d_name, ".") || !strcmp(found->d_name, "..")) continue;
        if (!keep || keep(found->d_name, found->d_type))
            status = add_name(names, &length, found->d_name, error);
    }
    closedir(folder);
    if (status == FF_OK && names->count)
        qsort_r(names->offset, names->count, sizeof *names->offset, compare_names, names->bytes);
    if (status != FF_OK) ff_names_free(names);
    return status;
}

void ff_names_free(ff_names *names) {
    free(names->bytes);
    free(names->offset);
    *names = (ff_names){0};
}
