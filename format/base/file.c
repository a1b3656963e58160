#include "format/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 18, WRITE_BACK_BYTES = 8 << 20 };

struct ff_file {
    int descriptor;
    char *directory, *path, *temporary;
    uint64_t offset; /* appended, buffered bytes included */
    uint64_t pushed; /* write-back was started up to here */
    size_t buffered;
    uint8_t buffer[BUFFER_BYTES];
};

static void release(ff_file **file) {
    if ((*file)->descriptor >= 0) close((*file)->descriptor);
    free((*file)->directory);
    free((*file)->path);
    free((*file)->temporary);
    free(*file);
    *file = NULL;
}

ff_status ff_file_create(ff_file **out, const char *directory, const char *name, ff_error *error) {
    ff_file *file;
    *out = NULL;
    FF_TRY(ff_alloc(&file, 1, sizeof *file, "a file buffer", error));
    file->descriptor = -1;
    ff_status status = ff_copy_string(&file->directory, directory, error);
    if (status == FF_OK) status = ff_format(&file->path, error, "%s/%s", directory, name);
    if (status == FF_OK) status = ff_format(&file->temporary, error, "%s/%s.tmp", directory, name);
    if (status == FF_OK) {
        file->descriptor = open(file->temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (file->descriptor < 0)
            status = ff_fail_errno(error, "%s: cannot create", file->temporary);
    }
    if (status != FF_OK)
        release(&file);
    else
        *out = file;
    return status;
}

static ff_status write_all(ff_file *file, const uint8_t *bytes, size_t length, ff_error *error) {
    while (length) {
        ssize_t written = write(file->descriptor, bytes, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            if (written == 0) errno = EIO;
            return ff_fail_errno(error, "%s: cannot write %zu bytes", file->temporary, length);
        }
        bytes += written;
        length -= (size_t)written;
    }
    return FF_OK;
}

static ff_status flush(ff_file *file, ff_error *error) {
    size_t length = file->buffered;
    file->buffered = 0;
    FF_TRY(write_all(file, file->buffer, length, error));
    /* Let the disk work while the next bytes are made, so that the fsync at the end is short. */
    if (file->offset - file->pushed >= WRITE_BACK_BYTES) {
        sync_file_range(file->descriptor, (off_t)file->pushed, (off_t)(file->offset - file->pushed),
                        SYNC_FILE_RANGE_WRITE);
        file->pushed = file->offset;
    }
    return FF_OK;
}

ff_status ff_file_write(ff_file *file, const void *bytes, size_t length, ff_error *error) {
    if (file->buffered + length > BUFFER_BYTES) FF_TRY(flush(file, error));
    file->offset += length;
    if (length >= BUFFER_BYTES) {
        FF_TRY(write_all(file, bytes, length, error));
        return flush(file, error);
    }
    if (length) memcpy(file->buffer + file->buffered, bytes, length);
    file->buffered += length;
    return FF_OK;
}

ff_status ff_file_pad(ff_file *file, uint64_t alignment, ff_error *error) {
    static const uint8_t zeros[4096];
    return ff_file_write(file, zeros,
                         (size_t)(ff_align_u64(file->offset, alignment) - file->offset), error);
}

ff_status ff_file_skip(ff_file *file, uint64_t length, ff_error *error) {
    FF_TRY(flush(file, error));
    file->offset += length;
    if (ftruncate(file->descriptor, (off_t)file->offset) ||
        lseek(file->descriptor, (off_t)file->offset, SEEK_SET) < 0)
        return ff_fail_errno(error, "%s: cannot grow to %" PRIu64 " bytes", file->temporary,
                             file->offset);
    return FF_OK;
}

ff_status ff_file_read_back(ff_file *file, uint64_t offset, void *bytes, size_t length,
                            ff_error *error) {
    if (file->buffered) FF_TRY(flush(file, error));
    return ff_read_exactly(file->descriptor, file->temporary, offset, bytes, length, error);
}

/* copy_file_range where both file systems have it; else through the buffer. */
ff_status ff_file_copy(ff_file *file, int from, const char *path, uint64_t length,
                       ff_error *error) {
    uint8_t bytes[16384];
    uint64_t done = 0;
    FF_TRY(flush(file, error));
    while (done < length) {
        loff_t at = (loff_t)done;
        ssize_t copied = copy_file_range(from, &at, file->descriptor, NULL, length - done, 0);
        if (copied <= 0) break;
        done += (uint64_t)copied;
        file->offset += (uint64_t)copied;
    }
    while (done < length) {
        size_t count = length - done < sizeof bytes ? (size_t)(length - done) : sizeof bytes;
        FF_TRY(ff_read_exactly(from, path, done, bytes, count, error));
        FF_TRY(ff_file_write(file, bytes, count, error));
        done += count;
    }
    return FF_OK;
}

uint64_t ff_file_offset(const ff_file *file) {
    return file->offset;
}

ff_status ff_file_rewrite(ff_file *file, uint64_t offset, const void *bytes, size_t length,
                          ff_error *error) {
    FF_TRY(flush(file, error));
    const uint8_t *at = bytes;
    while (length) {
        ssize_t written = pwrite(file->descriptor, at, length, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0)
            return ff_fail_errno(error, "%s: cannot write at offset %" PRIu64, file->temporary,
                                 offset);
        at += written;
        offset += (uint64_t)written;
        length -= (size_t)written;
    }
    return FF_OK;
}

ff_status ff_sync_directory(const char *path, ff_error *error) {
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return ff_fail_errno(error, "%s: cannot open the folder", path);
    ff_status status = FF_OK;
    /* Some network file systems refuse fsync on folders with EINVAL: they sync by themselves. */
    if (fsync(descriptor) && errno != EINVAL)
        status = ff_fail_errno(error, "%s: cannot sync the folder", path);
    close(descriptor);
    return status;
}

static ff_status sync_bytes(ff_file *file, ff_error *error) {
    FF_TRY(flush(file, error));
    return fsync(file->descriptor) ? ff_fail_errno(error, "%s: cannot sync", file->temporary)
                                   : FF_OK;
}

ff_status ff_file_keep(ff_file **file, ff_error *error) {
    ff_status status = sync_bytes(*file, error);
    if (status == FF_OK)
        release(file);
    else
        ff_file_discard(file);
    return status;
}

ff_status ff_file_commit(ff_file **file, ff_error *error) {
    ff_status status = sync_bytes(*file, error);
    if (status == FF_OK && rename((*file)->temporary, (*file)->path))
        status = ff_fail_errno(error, "%s: cannot rename to %s", (*file)->temporary, (*file)->path);
    if (status != FF_OK) {
        ff_file_discard(file);
        return status;
    }
    status = ff_sync_directory((*file)->directory, error);
    release(file);
    return status;
}

void ff_file_discard(ff_file **file) {
    if (!*file) return;
    unlink((*file)->temporary);
    release(file);
}

ff_status ff_read_exactly(int descriptor, const char *path, uint64_t offset, void *bytes,
                          size_t length, ff_error *error) {
    uint8_t *at = bytes;
    while (length) {
        ssize_t count = pread(descriptor, at, length, (off_t)offset);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0)
            return ff_fail_errno(error, "%s: cannot read at offset %" PRIu64, path, offset);
        if (count == 0)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: ends at offset %" PRIu64 ", where %zu more bytes are wanted", path,
                           offset, length);
        at += count;
        offset += (uint64_t)count;
        length -= (size_t)count;
    }
    return FF_OK;
}
