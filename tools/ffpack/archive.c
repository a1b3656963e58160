#include "tools/ffpack/archive.h"

#include "tools/ffpack/disk.h"

#include <archive.h>
#include <archive_entry.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { CHUNK_BYTES = 256 * 1024 };

struct ff_archive {
    char *path;
    int fd;
    struct archive *reader;
};

static ff_status broken(ff_archive *archive, ff_error *error) {
    const char *reason = archive_error_string(archive->reader);
    return ff_fail(error, FF_BAD_DATA, "%s: broken archive near byte %" PRId64 " (%s)",
                   archive->path, archive_filter_bytes(archive->reader, -1),
                   reason ? reason : "libarchive gives no reason");
}

ff_status ff_archive_open(ff_archive **out, const char *path, ff_error *error) {
    *out = NULL;
    ff_archive *archive;
    FF_TRY(ff_alloc(&archive, 1, sizeof *archive, "an archive", error));
    archive->fd = -1;
    ff_status status = ff_copy_string(&archive->path, path, error);
    if (status == FF_OK) status = ff_disk_open(path, &archive->fd, NULL, error);
    if (status == FF_OK && !(archive->reader = archive_read_new()))
        status = ff_fail(error, FF_NO_MEMORY, "%s: not enough memory to read an archive", path);
    if (status == FF_OK) {
        /* Named one by one: "all" would also start other programs to decompress. */
        archive_read_support_filter_gzip(archive->reader);
        archive_read_support_filter_bzip2(archive->reader);
        archive_read_support_filter_xz(archive->reader);
        archive_read_support_filter_zstd(archive->reader);
        archive_read_support_format_tar(archive->reader);
        if (archive_read_open_fd(archive->reader, archive->fd, CHUNK_BYTES) != ARCHIVE_OK)
            status = broken(archive, error);
    }
    if (status == FF_OK)
        *out = archive;
    else
        ff_archive_close(&archive);
    return status;
}

ff_status ff_archive_next(ff_archive *archive, const char **name, uint64_t *bytes,
                          ff_error *error) {
    *name = NULL;
    for (;;) {
        struct archive_entry *entry;
        int result = archive_read_next_header(archive->reader, &entry);
        if (result == ARCHIVE_EOF) return FF_OK;
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return broken(archive, error);
        /* A hard link names another member's bytes and has none of its own. */
        if (archive_entry_filetype(entry) != S_IFREG || archive_entry_hardlink(entry)) continue;
        const char *path = archive_entry_pathname(entry);
        if (!path) return broken(archive, error);
        *name = path;
        *bytes = archive_entry_size(entry) > 0 ? (uint64_t)archive_entry_size(entry) : 0;
        return FF_OK;
    }
}

ff_status ff_archive_read(ff_archive *archive, void *to, size_t size, size_t *got,
                          ff_error *error) {
    *got = 0;
    while (*got < size) {
        la_ssize_t part = archive_read_data(archive->reader, (char *)to + *got, size - *got);
        if (part < 0) return broken(archive, error);
        if (part == 0) break;
        *got += (size_t)part;
    }
    return FF_OK;
}

void ff_archive_close(ff_archive **archive) {
    if (!*archive) return;
    if ((*archive)->reader) archive_read_free((*archive)->reader);
    ff_disk_close(&(*archive)->fd);
    free((*archive)->path);
    free(*archive);
    *archive = NULL;
}
