#include "format/reader/files.h"

#include "format/base/read.h"
#include "format/storage/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Shards beyond this number share the files: opening a file costs far less than a disk read. */
#define FILES_MOST  64u
#define FILES_LEAST 4u

typedef struct open_file {
    int descriptor; /* -1 = none */
    uint32_t number;
    uint32_t users;           /* threads that read the file */
    uint64_t used;            /* time of the last use, by `clock` below */
    bool direct;              /* opened with O_DIRECT */
    struct timespec accepted; /* the last write after which the file was still the shard */
} open_file;

struct ff_files {
    pthread_mutex_t mutex;
    pthread_cond_t given; /* signalled when a reader returns a file */
    open_file file[FILES_MOST];
    unsigned count; /* files that may be open */
    uint64_t clock;
    bool buffered;       /* the file system has no O_DIRECT */
    atomic_bool written; /* ff_files_were_written */
};

ff_status ff_files_create(ff_files **out, ff_error *error) {
    FF_TRY(ff_alloc(out, 1, sizeof **out, "open files", error));
    ff_files *files = *out;
    files->count = ff_descriptor_share(8, FILES_LEAST, FILES_MOST);
    for (unsigned i = 0; i < FILES_MOST; i++) files->file[i].descriptor = -1;
    pthread_mutex_init(&files->mutex, NULL);
    pthread_cond_init(&files->given, NULL);
    return FF_OK;
}

static void close_file(open_file *file) {
    if (file->descriptor >= 0) close(file->descriptor);
    file->descriptor = -1;
}

void ff_files_destroy(ff_files **out) {
    if (!*out) return;
    for (unsigned i = 0; i < FILES_MOST; i++) close_file(&(*out)->file[i]);
    pthread_cond_destroy(&(*out)->given);
    pthread_mutex_destroy(&(*out)->mutex);
    free(*out);
    *out = NULL;
}

/* The functions down to take_file are called with the lock held. */

/* Closes a file that nobody reads; waits for one if all are being read. */
static bool close_one(ff_files *files) {
    for (;;) {
        bool open = false;
        for (unsigned i = 0; i < files->count; i++) {
            open_file *file = &files->file[i];
            if (file->descriptor < 0) continue;
            open = true;
            if (file->users) continue;
            close_file(file);
            return true;
        }
        if (!open) return false;
        pthread_cond_wait(&files->given, &files->mutex);
    }
}

/* The open file of a shard, or else the best place for that file: an empty one, or the one whose
 * file was used the longest ago; NULL if all files are being read. */
static open_file *find_place(ff_files *files, uint32_t number) {
    open_file *best = NULL;
    for (unsigned i = 0; i < files->count; i++) {
        open_file *file = &files->file[i];
        if (file->descriptor >= 0 && file->number == number) return file;
        if (file->users) continue;
        if (!best || (best->descriptor >= 0 && (file->descriptor < 0 || file->used < best->used)))
            best = file;
    }
    return best;
}

/* *full: the process has no descriptor left. */
static ff_status open_shard(ff_files *files, open_file *file, const ff_shard *shard, bool *full,
                            ff_error *error) {
    /* What was just fetched is in the page cache. */
    file->direct = !files->buffered && !shard->cache;
    file->accepted.tv_nsec = -1;
    file->descriptor = open(shard->file, O_RDONLY | O_CLOEXEC | (file->direct ? O_DIRECT : 0));
    if (file->descriptor < 0 && file->direct && errno == EINVAL) {
        files->buffered = true;
        file->direct = false;
        file->descriptor = open(shard->file, O_RDONLY | O_CLOEXEC);
    }
    *full = file->descriptor < 0 && errno == EMFILE;
    return file->descriptor < 0 ? ff_fail_errno(error, "%s: cannot open", shard->file) : FF_OK;
}

static ff_status take_file(ff_files *files, const ff_shard *shard, uint32_t number, open_file **out,
                           ff_error *error) {
    for (;;) {
        open_file *file = *out = find_place(files, number);
        if (!file) {
            pthread_cond_wait(&files->given, &files->mutex);
            continue;
        }
        if (file->descriptor < 0 || file->number != number) {
            close_file(file);
            file->number = number;
            bool full;
            const ff_status status = open_shard(files, file, shard, &full, error);
            /* Meanwhile another thread may have opened this shard. */
            if (status != FF_OK && full && close_one(files)) continue;
            FF_TRY(status);
        }
        file->users++;
        file->used = ++files->clock;
        return FF_OK;
    }
}

static void give_file(ff_files *files, open_file *file) {
    file->users--;
    /* The file was opened for direct reads, which are no longer used. */
    if (!file->users && file->direct && files->buffered) close_file(file);
    pthread_cond_broadcast(&files->given);
}

bool ff_files_were_written(const ff_files *files) {
    return atomic_load_explicit(&files->written, memory_order_relaxed);
}

bool ff_files_make_room(ff_files *files, ff_status status) {
    if (status != FF_IO || errno != EMFILE) return false;
    pthread_mutex_lock(&files->mutex);
    const bool closed = close_one(files);
    pthread_mutex_unlock(&files->mutex);
    return closed;
}

/* Reads from a file that stays open. *refused: this file or device needs another alignment than
 * direct reads have, or returned less than a block. *done: the bytes read so far. */
static ff_status read_file(const open_file *file, const ff_shard *shard, uint64_t offset,
                           uint64_t bytes, uint8_t *to, uint64_t *done, bool *refused,
                           ff_error *error) {
    const uint64_t length = ff_align_u64(bytes, FF_READ_BLOCK);
    *refused = false;
    while (*done < bytes) {
        ssize_t got = pread(file->descriptor, to + *done, length - *done, (off_t)(offset + *done));
        if (got < 0 && errno == EINTR) continue;
        const bool no_block =
            got > 0 && (uint64_t)got < FF_READ_BLOCK && *done + (uint64_t)got < bytes;
        *refused = file->direct && (no_block || (got < 0 && errno == EINVAL));
        if (*refused) return FF_OK;
        if (got < 0)
            return ff_fail_errno(error, "%s: offset %" PRIu64 ": cannot read", shard->path,
                                 offset + *done);
        if (got == 0)
            return ff_fail(error, FF_IO,
                           "%s: offset %" PRIu64 ": the file shrank while it was read", shard->path,
                           offset + *done);
        *done += (uint64_t)got;
        /* If a direct read ends inside a block, the next one begins at that block's start. */
        if (file->direct && *done < bytes) *done &= ~(FF_READ_BLOCK - 1);
    }
    return FF_OK;
}

/* Whether a file that is not the one that was opened, or was written since, has the shard's footer:
 * it is the same shard then, copied or touched. */
static bool has_footer(const open_file *file, const ff_shard *shard) {
    _Alignas(FF_READ_BLOCK) uint8_t bytes[2 * FF_READ_BLOCK];
    const uint64_t at = shard->footer_offset + FF_FOOTER_BYTES - 8;
    const uint64_t begin = at & ~(FF_READ_BLOCK - 1), within = at - begin;
    const ssize_t got = pread(file->descriptor, bytes, sizeof bytes, (off_t)begin);
    return got >= (ssize_t)(within + 8) && ff_load_u64(bytes + within) == shard->footer.checksum;
}

/* After a read: what came is the shard's if the file is still the shard. *accepted: the file's. */
static ff_status check_file(ff_files *files, const open_file *file, const ff_shard *shard,
                            struct timespec *accepted, ff_error *error) {
    struct stat now;
    if (fstat(file->descriptor, &now)) return ff_fail_errno(error, "%s: cannot stat", shard->file);
    if (ff_shard_is_unchanged(shard, &now)) return FF_OK;
    if (now.st_mtim.tv_sec == accepted->tv_sec && now.st_mtim.tv_nsec == accepted->tv_nsec)
        return FF_OK;
    if (has_footer(file, shard)) {
        *accepted = now.st_mtim;
        atomic_store(&files->written, true);
        return FF_OK;
    }
    if (now.st_dev == shard->device && now.st_ino == shard->inode &&
        (uint64_t)now.st_size < shard->bytes)
        return ff_fail(error, FF_IO, "%s: offset %" PRIu64 ": the file shrank while it was read",
                       shard->path, (uint64_t)now.st_size);
    return ff_fail(error, FF_IO, "%s: was replaced while the set was read", shard->path);
}

static ff_status read_whole_file(ff_files *files, const ff_shard *shard, uint32_t number,
                                 uint64_t offset, uint64_t bytes, uint8_t *to, ff_error *error) {
    uint64_t done = 0;
    bool refused;
    do {
        open_file *file;
        struct timespec accepted = {0};
        pthread_mutex_lock(&files->mutex);
        ff_status status = take_file(files, shard, number, &file, error);
        if (status == FF_OK) accepted = file->accepted;
        pthread_mutex_unlock(&files->mutex);
        FF_TRY(status);
        status = read_file(file, shard, offset, bytes, to, &done, &refused, error);
        if (status == FF_OK && !refused && !shard->cache)
            status = check_file(files, file, shard, &accepted, error);
        pthread_mutex_lock(&files->mutex);
        files->buffered |= refused;
        file->accepted = accepted;
        give_file(files, file);
        pthread_mutex_unlock(&files->mutex);
        FF_TRY(status);
    } while (refused);
    return FF_OK;
}

/* Fetches what the cache lacks of a range, for ff_cache_done. */
static ff_status need(ff_files *files, const ff_shard *shard, uint64_t offset, uint64_t bytes,
                      ff_cache_mark *mark, ff_error *error) {
    ff_status status;
    do {
        errno = 0;
        status = ff_cache_need(shard->cache, shard->header.number, offset, bytes, mark, error);
    } while (ff_files_make_room(files, status));
    return status;
}

ff_status ff_files_bring(ff_files *files, const ff_shard *shard, uint64_t offset, uint64_t bytes,
                         ff_error *error) {
    ff_cache_mark mark;
    if (!shard->cache) return FF_OK;
    FF_TRY(need(files, shard, offset, bytes, &mark, error));
    (void)ff_cache_done(shard->cache, shard->header.number, offset, bytes, mark);
    return FF_OK;
}

/* A piece may be removed while it is read; then it is fetched again. */
ff_status ff_files_read(ff_files *files, const ff_shard *shard, uint32_t number, uint64_t offset,
                        uint64_t bytes, uint8_t *to, ff_error *error) {
    ff_cache_mark mark;
    if (!shard->cache) return read_whole_file(files, shard, number, offset, bytes, to, error);
    for (;;) {
        FF_TRY(need(files, shard, offset, bytes, &mark, error));
        const ff_status status = read_whole_file(files, shard, number, offset, bytes, to, error);
        if (ff_cache_done(shard->cache, shard->header.number, offset, bytes, mark) ||
            status != FF_OK)
            return status;
    }
}
