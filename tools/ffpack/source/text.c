#include "tools/ffpack/source/text.h"

#include "format/base/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_LIMIT_BYTES (UINT64_C(64) << 20)

ff_status ff_disk_open(const char *path, int *fd, uint64_t *bytes, ff_error *error) {
    /* O_NONBLOCK: opening a pipe would wait for its writer. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return ff_fail_errno(error, "%s: cannot open", path);
    struct stat info;
    ff_status status = FF_OK;
    if (fstat(*fd, &info) < 0)
        status = ff_fail_errno(error, "%s: cannot examine", path);
    else if (!S_ISREG(info.st_mode))
        status = ff_fail(error, FF_BAD_DATA, "%s: is %s, wanted a regular file", path,
                         S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    else if (bytes)
        *bytes = (uint64_t)info.st_size;
    if (status != FF_OK) ff_disk_close(fd);
    return status;
}

ff_status ff_disk_read_some(int fd, const char *path, void *to, size_t size, size_t limit,
                            uint64_t offset, size_t *got, ff_error *error) {
    size_t done = 0;
    while (done < size) {
        ssize_t part = pread(fd, (char *)to + done, limit - done, (off_t)(offset + done));
        if (part < 0 && errno == EINTR) continue;
        if (part < 0)
            return ff_fail_errno(error, "%s: cannot read at byte %" PRIu64, path, offset + done);
        if (part == 0)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: ends at byte %" PRIu64 ", wanted bytes up to %" PRIu64, path,
                           offset + done, offset + size);
        done += (size_t)part;
    }
    *got = done;
    return FF_OK;
}

ff_status ff_disk_read_at(int fd, const char *path, void *to, size_t size, uint64_t offset,
                          ff_error *error) {
    size_t got;
    return ff_disk_read_some(fd, path, to, size, size, offset, &got, error);
}

/* A gather from a mapping, so that no call to the system is made for a piece. */
typedef struct gather {
    const char *from;
    char *to;
    size_t size;
    uint64_t stride, count;
} gather;

static void gather_pieces(void *context) {
    const gather *job = context;
    for (uint64_t i = 0; i < job->count; i++)
        memcpy(job->to + i * job->size, job->from + i * job->stride, job->size);
}

ff_status ff_disk_gather(int fd, const char *path, void *to, size_t size, uint64_t offset,
                         uint64_t stride, uint64_t count, ff_error *error) {
    if (!count) return FF_OK;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = offset - offset % page;
    size_t length = (size_t)(offset - begin + stride * (count - 1) + size);
    char *map = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, (off_t)begin);
    if (map == MAP_FAILED)
        return ff_fail_errno(error, "%s: cannot map %zu bytes at %" PRIu64, path, length, begin);
    gather job = {
        .from = map + (offset - begin), .to = to, .size = size, .stride = stride, .count = count};
    const char *fault = ff_guard_run(gather_pieces, &job);
    munmap(map, length);
    if (!fault) return FF_OK;
    return ff_fail(error, FF_IO,
                   "%s: cannot read at byte %" PRIu64 ": it became shorter, or its disk fails",
                   path, begin + (uint64_t)(fault - map));
}

ff_status ff_disk_write_at(int fd, const char *directory, const void *from, size_t size,
                           uint64_t offset, ff_error *error) {
    size_t done = 0;
    while (done < size) {
        ssize_t put = pwrite(fd, (const char *)from + done, size - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return ff_fail_errno(error, "%s: cannot write temporary space", directory);
        done += (size_t)put;
    }
    return FF_OK;
}

ff_status ff_disk_temporary(const char *directory, int *fd, ff_error *error) {
    *fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*fd >= 0) return FF_OK;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)
        return ff_fail_errno(error, "%s: cannot create temporary space", directory);
    /* A file system without O_TMPFILE: a name that lives for one system call. */
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

void ff_disk_close(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

ff_status ff_disk_text(const char *path, char **text, ff_error *error) {
    int fd;
    uint64_t bytes = 0;
    *text = NULL;
    FF_TRY(ff_disk_open(path, &fd, &bytes, error));
    ff_status status = FF_OK;
    if (bytes > TEXT_LIMIT_BYTES)
        status = ff_fail(error, FF_BAD_DATA,
                         "%s: has %" PRIu64 " bytes, wanted a list of names of at most %" PRIu64,
                         path, bytes, TEXT_LIMIT_BYTES);
    if (status == FF_OK) status = ff_alloc(text, bytes + 1, 1, "a text file", error);
    if (status == FF_OK) status = ff_disk_read_at(fd, path, *text, bytes, 0, error);
    const char *zero = status == FF_OK ? memchr(*text, 0, bytes) : NULL;
    if (zero)
        status = ff_fail(error, FF_BAD_DATA, "%s: has a zero byte at %td, wanted text", path,
                         zero - *text);
    if (status != FF_OK) {
        free(*text);
        *text = NULL;
    }
    ff_disk_close(&fd);
    return status;
}

char *ff_text_line(char **cursor) {
    char *line = *cursor;
    if (!*line) return NULL;
    size_t length = strcspn(line, "\n");
    *cursor = line + length + (line[length] != 0);
    line[length] = 0;
    if (length && line[length - 1] == '\r') line[length - 1] = 0;
    return line;
}

ff_status ff_path_join(char **path, const char *directory, const char *name, ff_error *error) {
    size_t length = strlen(directory);
    bool slash = length && directory[length - 1] == '/';
    return ff_format(path, error, "%s%s%s", directory, slash ? "" : "/", name);
}

const char *ff_path_base(const char *path) {
    const char *base = path;
    for (const char *at = path; *at; at++)
        if (*at == '/' && at[1] && at[1] != '/') base = at + 1;
    return base;
}
