#include "format/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Offsets, lengths and memory of a direct read are multiples of the device's block; 4 KiB fits all
 * that are in use. */
#define BLOCK UINT64_C(4096)
/* Open files; more shards share these: an open costs far less than a disk read. */
#define FILES 64u

typedef struct open_file {
    int descriptor; /* -1 = none */
    uint32_t number;
    bool direct; /* opened with O_DIRECT */
} open_file;

struct ff_direct {
    open_file file[FILES];
    uint8_t *memory;
    uint64_t capacity;
    bool buffered; /* the file system has no O_DIRECT */
};

ff_status ff_direct_open(ff_direct **out, ff_error *error) {
    FF_TRY(ff_alloc(out, 1, sizeof **out, "a reader", error));
    for (unsigned i = 0; i < FILES; i++) (*out)->file[i].descriptor = -1;
    return FF_OK;
}

static void close_file(open_file *file) {
    if (file->descriptor >= 0) close(file->descriptor);
    file->descriptor = -1;
}

void ff_direct_close(ff_direct **out) {
    if (!*out) return;
    for (unsigned i = 0; i < FILES; i++) close_file(&(*out)->file[i]);
    free((*out)->memory);
    free(*out);
    *out = NULL;
}

bool ff_direct_give_up(ff_direct *direct) {
    for (unsigned i = 0; i < FILES; i++) {
        if (direct->file[i].descriptor < 0) continue;
        close_file(&direct->file[i]);
        return true;
    }
    return false;
}

static int open_one(ff_direct *direct, const ff_shard *shard, int flags) {
    int descriptor;
    do {
        descriptor = open(shard->path, O_RDONLY | O_CLOEXEC | flags);
    } while (descriptor < 0 && errno == EMFILE && ff_direct_give_up(direct));
    return descriptor;
}

static ff_status open_shard(ff_direct *direct, const ff_shard *shard, uint32_t number,
                            open_file **out, ff_error *error) {
    open_file *file = *out = &direct->file[number % FILES];
    if (file->descriptor >= 0 && file->number == number) return FF_OK;
    close_file(file);
    file->number = number;
    file->direct = !direct->buffered;
    if (file->direct) file->descriptor = open_one(direct, shard, O_DIRECT);
    if (file->descriptor < 0 && (direct->buffered || errno == EINVAL)) {
        direct->buffered = true;
        file->direct = false;
        file->descriptor = open_one(direct, shard, 0);
    }
    if (file->descriptor < 0) return ff_fail_errno(error, "%s: cannot open", shard->path);
    struct stat info;
    if (fstat(file->descriptor, &info)) {
        const int reason = errno;
        close_file(file);
        errno = reason;
        return ff_fail_errno(error, "%s: cannot stat", shard->path);
    }
    if (info.st_dev == shard->device && info.st_ino == shard->inode) return FF_OK;
    close_file(file);
    return ff_fail(error, FF_IO, "%s: was replaced while the set was read", shard->path);
}

static ff_status reserve(ff_direct *direct, uint64_t bytes, ff_error *error) {
    if (direct->capacity >= bytes) return FF_OK;
    free(direct->memory);
    direct->memory = NULL;
    direct->capacity = 0;
    FF_TRY(ff_alloc_aligned(&direct->memory, bytes, 1, BLOCK, "a sample", error));
    direct->capacity = bytes;
    return FF_OK;
}

ff_status ff_direct_read(ff_direct *direct, const ff_shard *shard, uint32_t number, uint64_t offset,
                         uint64_t bytes, const uint8_t **out, ff_error *error) {
    uint64_t begin = offset & ~(BLOCK - 1), wanted = offset + bytes - begin, done = 0;
    uint64_t length = ff_align_u64(wanted, BLOCK);
    open_file *file;
    FF_TRY(reserve(direct, length, error));
    FF_TRY(open_shard(direct, shard, number, &file, error));
    while (done < wanted) {
        ssize_t got =
            pread(file->descriptor, direct->memory + done, length - done, (off_t)(begin + done));
        if (got < 0 && errno == EINTR) continue;
        bool refused = got < 0 && errno == EINVAL;
        bool no_block = got > 0 && (uint64_t)got < BLOCK && done + (uint64_t)got < wanted;
        if (file->direct && (refused || no_block)) {
            /* Opened, but this file or device needs another alignment, or returned less than a
             * block. */
            direct->buffered = true;
            close_file(file);
            FF_TRY(open_shard(direct, shard, number, &file, error));
            continue;
        }
        if (got < 0)
            return ff_fail_errno(error, "%s: offset %" PRIu64 ": cannot read", shard->path,
                                 begin + done);
        if (got == 0)
            return ff_fail(error, FF_IO,
                           "%s: offset %" PRIu64 ": the file shrank while it was read", shard->path,
                           begin + done);
        done += (uint64_t)got;
        /* A direct read that ended inside a block is repeated from the block's start. */
        if (file->direct && done < wanted) done &= ~(BLOCK - 1);
    }
    *out = direct->memory + (offset - begin);
    return FF_OK;
}
