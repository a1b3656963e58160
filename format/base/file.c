#include "format/base/file.h"

#include "format/base/path.h"
#include "format/base/read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- at an offset ---------------------------------------------------------------------------- */

enum { APPEND = -1 };

/* Writes all bytes, at an offset or at the descriptor's position; false with errno set. */
static bool put_all(int fd, const void *bytes, size_t length, int64_t offset) {
    const char *from = bytes;
    for (size_t done = 0; done < length;) {
        ssize_t put = offset == APPEND
                          ? write(fd, from + done, length - done)
                          : pwrite(fd, from + done, length - done, (off_t)offset + (off_t)done);
        if (put < 0 && errno == EINTR) continue;
        if (put == 0) errno = EIO;
        if (put <= 0) return false;
        done += (size_t)put;
    }
    return true;
}

ff_status ff_write_at(int fd, const char *path, const void *from, size_t size, uint64_t offset,
                      ff_error *error) {
    if (put_all(fd, from, size, (int64_t)offset)) return FF_OK;
    return ff_fail_errno(error, "%s: cannot write at offset %" PRIu64, path, offset);
}

ff_status ff_open_temporary(const char *directory, int *fd, ff_error *error) {
    *fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*fd >= 0) return FF_OK;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)
        return ff_fail_errno(error, "%s: cannot create temporary space", directory);
    /* For a file system without O_TMPFILE: a file whose name exists for one system call. */
    char *path;
    FF_TRY(ff_path_join(&path, directory, ".ffpack-XXXXXX", error));
    *fd = mkostemp(path, O_CLOEXEC);
    ff_status status = FF_OK;
    if (*fd < 0)
        status = ff_fail_errno(error, "%s: cannot create temporary space", directory);
    else
        unlink(path);
    free(path);
    return status;
}

ff_status ff_write_temporary(int fd, const char *directory, const void *from, size_t size,
                             uint64_t offset, ff_error *error) {
    if (put_all(fd, from, size, (int64_t)offset)) return FF_OK;
    return ff_fail_errno(error, "%s: cannot write temporary space", directory);
}

ff_status ff_sync_directory(const char *path, ff_error *error) {
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return ff_fail_errno(error, "%s: cannot open the folder", path);
    ff_status status = FF_OK;
    /* Some network file systems refuse fsync on folders with EINVAL: they sync folders
     * themselves. */
    if (fsync(descriptor) && errno != EINVAL)
        status = ff_fail_errno(error, "%s: cannot sync the folder", path);
    close(descriptor);
    return status;
}

ff_status ff_lock_folder(int folder, const char *path, bool *unlocked, ff_error *error) {
    *unlocked = false;
    if (flock(folder, LOCK_EX | LOCK_NB) == 0) return FF_OK;
    *unlocked = errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK;
    if (*unlocked) return FF_OK;
    return errno == EWOULDBLOCK
               ? ff_fail(error, FF_USAGE, "%s: another ffpack is writing there", path)
               : ff_fail_errno(error, "%s: cannot lock", path);
}

ff_status ff_make_folders(const char *folder, ff_error *error) {
    char *path;
    FF_TRY(ff_copy_string(&path, folder, error));
    ff_status status = FF_OK;
    for (char *slash = path; status == FF_OK; slash++) {
        slash = *slash ? strchr(slash + 1, '/') : NULL;
        if (slash) *slash = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            status = ff_fail_errno(error, "%s: cannot create", path);
        if (!slash) break;
        *slash = '/';
    }
    free(path);
    return status;
}

/* ---- files that are written once ------------------------------------------------------------- */

enum { BUFFER_BYTES = 1 << 18, WRITE_BACK_BYTES = 8 << 20, RESERVE_BYTES = 64 << 20 };

struct ff_file {
    int descriptor;
    char *directory; /* the folder that the commit syncs; NULL = not synced */
    char *path;
    char *temporary;   /* NULL if the path is written to directly */
    const char *shown; /* the name in error messages */
    uint64_t offset;   /* bytes appended, including buffered ones */
    uint64_t pushed;   /* write-back was started up to here */
    uint64_t reserved; /* blocks are allocated up to here; UINT64_MAX = not any more */
    size_t buffered;
    uint8_t buffer[BUFFER_BYTES];
};

static void release(ff_file **file) {
    ff_close_file(&(*file)->descriptor);
    free((*file)->directory);
    free((*file)->path);
    free((*file)->temporary);
    free(*file);
    *file = NULL;
}

static ff_status allocate(ff_file **file, ff_error *error) {
    FF_TRY(ff_alloc(file, 1, sizeof **file, "a file buffer", error));
    (*file)->descriptor = -1;
    return FF_OK;
}

ff_status ff_file_create(ff_file **out, const char *directory, const char *name, ff_error *error) {
    ff_file *file;
    ff_status status;
    *out = NULL;
    FF_TRY(allocate(&file, error));
    FF_TRY_DONE(ff_copy_string(&file->directory, directory, error));
    FF_TRY_DONE(ff_format(&file->path, error, "%s/%s", directory, name));
    FF_TRY_DONE(ff_format(&file->temporary, error, "%s" FF_TMP_SUFFIX, file->path));
    file->shown = file->temporary;
    file->descriptor = open(file->temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file->descriptor < 0) status = ff_fail_errno(error, "%s: cannot create", file->temporary);
done:
    if (status != FF_OK)
        release(&file);
    else
        *out = file;
    return status;
}

/* Under a unique name, because other processes may be replacing the same file. */
static ff_status open_beside(ff_file *file, ff_error *error) {
    char *temporary;
    FF_TRY(ff_format(&temporary, error, "%s.XXXXXX", file->path));
    file->descriptor = mkostemp(temporary, O_CLOEXEC);
    if (file->descriptor < 0) {
        free(temporary);
        return ff_fail_errno(error, "%s: cannot create", file->path);
    }
    file->temporary = temporary;
    /* mkostemp creates the file with mode 0600; use the umask instead. */
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(file->descriptor, 0666 & ~mask))
        return ff_fail_errno(error, "%s: cannot set the mode", file->path);
    return FF_OK;
}

static ff_status open_replacement(ff_file *file, const char *path, ff_error *error) {
    struct stat info;
    bool standard = !strcmp(path, "-");
    FF_TRY(ff_copy_string(&file->path, standard ? "standard output" : path, error));
    file->shown = file->path;
    if (standard) {
        file->descriptor = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    } else if (!stat(path, &info) && S_ISDIR(info.st_mode)) {
        return ff_fail(error, FF_IO, "%s: is a folder; name a file to write", path);
    } else if (!stat(path, &info) && !S_ISREG(info.st_mode)) {
        file->descriptor = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        return open_beside(file, error);
    }
    if (file->descriptor < 0) return ff_fail_errno(error, "%s: cannot open", file->path);
    return FF_OK;
}

ff_status ff_file_replace(ff_file **out, const char *path, ff_error *error) {
    *out = NULL;
    FF_TRY(allocate(out, error));
    ff_status status = open_replacement(*out, path, error);
    if (status != FF_OK) ff_file_discard(out);
    return status;
}

bool ff_file_seekable(const ff_file *file) {
    return file->temporary != NULL;
}

static ff_status write_all(ff_file *file, const uint8_t *bytes, size_t length, ff_error *error) {
    return put_all(file->descriptor, bytes, length, APPEND)
               ? FF_OK
               : ff_fail_errno(error, "%s: cannot write", file->shown);
}

/* Allocates a large file's blocks ahead, which the kernel does in one step instead of page by page.
 * sync_bytes frees the blocks behind the end. */
static void reserve(ff_file *file) {
    if (file->reserved > file->offset + RESERVE_BYTES / 2) return;
    const bool done =
        !fallocate(file->descriptor, FALLOC_FL_KEEP_SIZE, (off_t)file->offset, RESERVE_BYTES);
    file->reserved = done ? file->offset + RESERVE_BYTES : UINT64_MAX;
}

static ff_status flush(ff_file *file, ff_error *error) {
    size_t length = file->buffered;
    file->buffered = 0;
    FF_TRY(write_all(file, file->buffer, length, error));
    /* Start write-back while the next bytes are produced, so that the fsync at the end is short. */
    if (file->directory && file->offset - file->pushed >= WRITE_BACK_BYTES) {
        sync_file_range(file->descriptor, (off_t)file->pushed, (off_t)(file->offset - file->pushed),
                        SYNC_FILE_RANGE_WRITE);
        file->pushed = file->offset;
        reserve(file);
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
        return ff_fail_errno(error, "%s: cannot grow to %" PRIu64 " bytes", file->shown,
                             file->offset);
    return FF_OK;
}

ff_status ff_file_read_back(ff_file *file, uint64_t offset, void *bytes, size_t length,
                            ff_error *error) {
    if (file->buffered) FF_TRY(flush(file, error));
    return ff_read_at(file->descriptor, file->shown, bytes, length, offset, error);
}

/* Uses copy_file_range if both file systems support it, else the buffer. */
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
        FF_TRY(ff_read_at(from, path, bytes, count, done, error));
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
    return ff_write_at(file->descriptor, file->shown, bytes, length, offset, error);
}

ff_status ff_file_is_there(ff_file *file, bool *there, ff_error *error) {
    int old;
    uint64_t bytes = 0;
    uint8_t *part;
    *there = false;
    if (ff_open_file(file->path, &old, &bytes, NULL) != FF_OK) return FF_OK;
    ff_status status = ff_alloc(&part, 2, BUFFER_BYTES, "file buffers", error);
    *there = status == FF_OK && bytes == file->offset;
    for (uint64_t at = 0; *there && at < bytes; at += BUFFER_BYTES) {
        size_t count = bytes - at < BUFFER_BYTES ? (size_t)(bytes - at) : BUFFER_BYTES;
        status = ff_file_read_back(file, at, part, count, error);
        *there = status == FF_OK &&
                 ff_read_at(old, file->path, part + BUFFER_BYTES, count, at, NULL) == FF_OK &&
                 !memcmp(part, part + BUFFER_BYTES, count);
    }
    free(part);
    ff_close_file(&old);
    return status;
}

static ff_status sync_bytes(ff_file *file, ff_error *error) {
    FF_TRY(flush(file, error));
    if (file->reserved && ftruncate(file->descriptor, (off_t)file->offset))
        return ff_fail_errno(error, "%s: cannot free the blocks behind its end", file->shown);
    if (file->directory)
        return fsync(file->descriptor) ? ff_fail_errno(error, "%s: cannot sync", file->shown)
                                       : FF_OK;
    int descriptor = file->descriptor;
    file->descriptor = -1;
    return close(descriptor) ? ff_fail_errno(error, "%s: cannot write", file->shown) : FF_OK;
}

ff_status ff_file_keep(ff_file **file, ff_error *error) {
    ff_status status = sync_bytes(*file, error);
    if (status == FF_OK)
        release(file);
    else
        ff_file_discard(file);
    return status;
}

ff_status ff_file_commit(ff_file **out, ff_error *error) {
    ff_file *file = *out;
    ff_status status = sync_bytes(file, error);
    if (status == FF_OK && file->temporary && rename(file->temporary, file->path))
        status = ff_fail_errno(error, "%s: cannot rename to %s", file->temporary, file->path);
    if (status != FF_OK) {
        ff_file_discard(out);
        return status;
    }
    if (file->directory) status = ff_sync_directory(file->directory, error);
    release(out);
    return status;
}

void ff_file_discard(ff_file **file) {
    if (!*file) return;
    if ((*file)->temporary) unlink((*file)->temporary);
    release(file);
}

void ff_hold_standard_files(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) /* the lowest number that is free, thus fd */
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

ff_status ff_file_save(const char *directory, const char *name, const ff_buffer *content,
                       ff_error *error) {
    ff_file *file;
    FF_TRY(ff_file_create(&file, directory, name, error));
    ff_status status;
    FF_TRY_DONE(ff_file_write(file, content->bytes, content->length, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
done:
    ff_file_discard(&file);
    return status;
}
