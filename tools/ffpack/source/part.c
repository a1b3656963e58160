/* The parts of a source: files and archives that hold its items. */
#include "format/base/read.h"
#include "tools/ffpack/source/source.h"

#include <stdlib.h>

static ff_status add_part(ff_source *source, const char *path, ff_source_part added, uint32_t *part,
                          ff_error *error) {
    ff_status status =
        ff_grow(&source->part, source->part_count, sizeof added, "the parts of a source", error);
    char *copy = NULL;
    if (status == FF_OK) status = ff_copy_string(&copy, path, error);
    if (status != FF_OK) {
        ff_close_file(&added.fd);
        return status;
    }
    added.path = copy;
    *part = (uint32_t)source->part_count;
    source->part[source->part_count++] = added;
    return FF_OK;
}

ff_status ff_source_add_part(ff_source *source, const char *path, int fd, uint32_t *part,
                             ff_error *error) {
    return add_part(source, path, (ff_source_part){.fd = fd}, part, error);
}

ff_status ff_source_add_file(ff_source *source, const char *path, uint64_t bytes, uint32_t *part,
                             ff_error *error) {
    return add_part(source, path, (ff_source_part){.fd = -1, .bytes = bytes}, part, error);
}

ff_status ff_source_add_stream(ff_source *source, const char *path, bool nested, uint32_t *part,
                               ff_error *error) {
    ff_source_part added = {.fd = -1, .stream = FF_STREAM_ARCHIVE, .nested = nested};
    return add_part(source, path, added, part, error);
}

ff_status ff_source_add_packed(ff_source *source, const char *path, uint32_t *part,
                               ff_error *error) {
    return add_part(source, path, (ff_source_part){.fd = -1, .stream = FF_STREAM_BYTES}, part,
                    error);
}

ff_status ff_source_add_column(ff_source *source, const char *path, const char *column,
                               uint32_t *part, ff_error *error) {
    FF_TRY(add_part(source, path, (ff_source_part){.fd = -1, .stream = FF_STREAM_COLUMN}, part,
                    error));
    return ff_copy_string(&source->part[*part].column, column, error);
}

ff_status ff_source_add_archive(ff_source *source, const char *path, bool plain, bool nested,
                                uint32_t *part, ff_error *error) {
    if (!plain) return ff_source_add_stream(source, path, nested, part, error);
    int fd;
    FF_TRY(ff_source_open_file(path, &fd, NULL, error));
    return ff_source_add_part(source, path, fd, part, error);
}
