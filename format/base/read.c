#include "format/base/read.h"

#include "format/base/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

ff_status ff_open_file(const char *path, int *fd, uint64_t *bytes, ff_error *error) {
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
    if (status != FF_OK) ff_close_file(fd);
    return status;
}

void ff_close_file(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

uint32_t ff_descriptor_share(uint32_t part, uint32_t least, uint32_t most) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / part > most) return most;
    return limit.rlim_cur / part < least ? least : (uint32_t)(limit.rlim_cur / part);
}

ff_status ff_read_some(int fd, const char *path, void *to, size_t size, size_t limit,
                       uint64_t offset, size_t *got, ff_error *error) {
    size_t done = 0;
    while (done < size) {
        ssize_t part = pread(fd, (char *)to + done, limit - done, (off_t)(offset + done));
        if (part < 0 && errno == EINTR) continue;
        if (part < 0)
            return ff_fail_errno(error, "%s: cannot read at offset %" PRIu64, path, offset + done);
        if (part == 0)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: ends at offset %" PRIu64 ", where %zu more bytes are wanted", path,
                           offset + done, size - done);
        done += (size_t)part;
    }
    *got = done;
    return FF_OK;
}

ff_status ff_read_at(int fd, const char *path, void *to, size_t size, uint64_t offset,
                     ff_error *error) {
    size_t got;
    return ff_read_some(fd, path, to, size, size, offset, &got, error);
}

ff_status ff_read_whole(ff_buffer *all, const char *path, uint64_t limit, ff_error *error) {
    int fd;
    uint64_t bytes = 0;
    FF_TRY(ff_open_file(path, &fd, &bytes, error));
    ff_status status = FF_OK;
    if (bytes > limit)
        status = ff_fail(error, FF_BAD_DATA, "%s: has %" PRIu64 " bytes, wanted at most %" PRIu64,
                         path, bytes, limit);
    else
        status = ff_reserve(&all->bytes, &all->capacity, bytes + 1, 1, "a file", error);
    if (status == FF_OK) status = ff_read_at(fd, path, all->bytes, bytes, 0, error);
    ff_close_file(&fd);
    FF_TRY(status);
    all->length = bytes;
    all->bytes[bytes] = 0;
    return FF_OK;
}

/* From a mapping, so that no system call is needed per piece. */
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

ff_status ff_read_pieces(int fd, const char *path, void *to, size_t size, uint64_t offset,
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
                   "%s: cannot read at offset %" PRIu64 ": it became shorter, or its disk fails",
                   path, begin + (uint64_t)(fault - map));
}
