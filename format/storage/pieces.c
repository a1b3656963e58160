#include "format/storage/pieces.h"

#include "format/base/file.h"
#include "format/base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "ffcache1";

ff_status ff_pieces_lock(int descriptor, const char *path, uint64_t at, uint64_t bytes, bool shared,
                         bool *got, ff_error *error) {
    struct flock lock = {.l_type = shared ? F_RDLCK : F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)at,
                         .l_len = (off_t)bytes};
    *got = fcntl(descriptor, F_OFD_SETLK, &lock) == 0;
    if (*got || errno == EAGAIN || errno == EACCES) return FF_OK;
    return ff_fail_errno(error, "%s: cannot lock; a cache needs a file system with locks", path);
}

void ff_pieces_unlock(int descriptor, uint64_t at, uint64_t bytes) {
    struct flock lock = {
        .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = (off_t)bytes};
    (void)fcntl(descriptor, F_OFD_SETLK, &lock);
}

/* Waits for FF_LOCK_MAKING, which others hold for some ms. */
static ff_status lock_making(int descriptor, const char *path, ff_error *error) {
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FF_LOCK_MAKING, .l_len = 1};
    while (fcntl(descriptor, F_OFD_SETLKW, &lock))
        if (errno != EINTR)
            return ff_fail_errno(error, "%s: cannot lock; a cache needs a file system with locks",
                                 path);
    return FF_OK;
}

/* Opens a file and locks its making. Another process may remove the file, with its set, before the
 * lock is there: then it is made again. */
static ff_status open_locked(int *descriptor, const char *path, const char *folder, uint64_t *had,
                             ff_error *error) {
    for (;;) {
        struct stat info;
        FF_TRY(ff_make_folders(folder, error));
        *descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (*descriptor < 0 && errno == ENOENT) continue;
        if (*descriptor < 0)
            return ff_fail_errno(error, "%s: cannot open; a cache must be writable", path);
        FF_TRY(lock_making(*descriptor, path, error));
        if (fstat(*descriptor, &info)) return ff_fail_errno(error, "%s: cannot stat", path);
        *had = (uint64_t)info.st_size;
        if (info.st_nlink) return FF_OK;
        close(*descriptor);
        *descriptor = -1;
    }
}

static ff_status open_state(int *descriptor, const char *path, const char *folder, uint64_t bytes,
                            void *map_pointer, uint64_t *had, ff_error *error) {
    FF_TRY(open_locked(descriptor, path, folder, had, error));
    if (*had != bytes && (ftruncate(*descriptor, 0) || ftruncate(*descriptor, (off_t)bytes)))
        return ff_fail_errno(error, "%s: cannot set its size", path);
    if ((errno = posix_fallocate(*descriptor, 0, (off_t)bytes)))
        return ff_fail_errno(error, "%s: cannot take its space", path);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *descriptor, 0);
    if (map == MAP_FAILED) return ff_fail_errno(error, "%s: cannot map", path);
    memcpy(map_pointer, &map, sizeof map);
    return FF_OK;
}

/* ---- one set -------------------------------------------------------------------------------- */

/* Files that are there are of a state that was removed: who has that one open still reads them. */
static ff_status make_state(ff_cache *cache, ff_error *error) {
    ff_pieces_header *header = cache->header;
    memcpy(header->magic, magic, sizeof magic);
    header->piece_bytes = FF_PIECE_BYTES;
    header->object_count = cache->count;
    header->piece_count = cache->file[cache->count].first_piece;
    for (uint32_t i = 0; i < cache->count; i++) {
        char *path;
        cache->row[i].bytes = cache->file[i].bytes;
        snprintf(cache->row[i].name, FF_NAME_BYTES, "%s", cache->file[i].name);
        FF_TRY(ff_path_join(&path, cache->folder, cache->file[i].name, error));
        (void)unlink(path);
        free(path);
    }
    return FF_OK;
}

bool ff_pieces_fit(const void *map, uint64_t bytes) {
    const ff_pieces_header *header = map;
    const ff_pieces_row *row = (const void *)((const char *)map + FF_PIECES_HEADER_BYTES);
    uint64_t pieces = 0;
    if (memcmp(header->magic, magic, sizeof magic) != 0 || header->piece_bytes != FF_PIECE_BYTES ||
        header->object_count > bytes / sizeof *row || header->piece_count > bytes)
        return false;
    if (bytes != FF_PIECES_HEADER_BYTES + header->object_count * sizeof *row +
                     header->piece_count * 2 * sizeof(uint32_t))
        return false;
    for (uint64_t i = 0; i < header->object_count; i++)
        pieces += (row[i].bytes + FF_PIECE_BYTES - 1) / FF_PIECE_BYTES;
    return pieces == header->piece_count;
}

static bool fits_state(const ff_cache *cache) {
    bool fits = ff_pieces_fit(cache->header, cache->map_bytes) &&
                cache->header->object_count == cache->count;
    for (uint32_t i = 0; fits && i < cache->count; i++)
        fits = cache->row[i].bytes == cache->file[i].bytes;
    return fits;
}

/* Forgets the pieces and ends of a file that was removed or replaced. */
static ff_status forget_lost(ff_cache *cache, uint32_t object, ff_error *error) {
    const struct ff_cache_file *file = &cache->file[object];
    struct stat info;
    char *path;
    FF_TRY(ff_path_join(&path, cache->folder, file->name, error));
    const bool there = stat(path, &info) == 0 && (uint64_t)info.st_size == file->bytes;
    free(path);
    if (there) return FF_OK;
    atomic_store(&cache->row[object].head, 0);
    atomic_store(&cache->row[object].tail, 0);
    for (uint32_t p = file->first_piece; p < file[1].first_piece; p++)
        if (atomic_load(&cache->counter[p]) % 2) atomic_fetch_add(&cache->counter[p], 1);
    return FF_OK;
}

/* What is there, by files, counters and ends. */
static ff_status count_again(ff_cache *cache, ff_error *error) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < cache->count; i++) {
        const struct ff_cache_file *file = &cache->file[i];
        FF_TRY(forget_lost(cache, i, error));
        all += atomic_load(&cache->row[i].head) + atomic_load(&cache->row[i].tail);
        for (uint32_t p = file->first_piece; p < file[1].first_piece; p++)
            if (atomic_load(&cache->counter[p]) % 2) all += FF_PIECE_BYTES;
    }
    atomic_store(&cache->header->bytes, all);
    return FF_OK;
}

static ff_status open_set(ff_cache *cache, ff_error *error) {
    const uint64_t pieces = cache->file[cache->count].first_piece;
    const uint64_t rows = FF_PIECES_HEADER_BYTES + cache->count * sizeof(ff_pieces_row),
                   bytes = rows + pieces * 2 * sizeof(uint32_t);
    char *path, *map = NULL;
    uint64_t had;
    bool alone;
    ff_status status;
    FF_TRY(ff_path_join(&path, cache->folder, FF_PIECES_NAME, error));
    FF_TRY_DONE(open_state(&cache->descriptor, path, cache->folder, bytes, &map, &had, error));
    cache->map_bytes = bytes;
    cache->header = (void *)map;
    cache->row = (void *)(map + FF_PIECES_HEADER_BYTES);
    cache->counter = (void *)(map + rows);
    cache->fetched = cache->counter + pieces;
    if (had != bytes) FF_TRY_DONE(make_state(cache, error));
    if (!fits_state(cache)) {
        status = ff_fail(error, FF_BAD_DATA, "%s: is of another set, or broken; remove the folder",
                         path);
        goto done;
    }
    FF_TRY_DONE(ff_pieces_lock(cache->descriptor, path, FF_LOCK_OPEN, 1, false, &alone, error));
    if (alone) FF_TRY_DONE(count_again(cache, error));
    FF_TRY_DONE(ff_pieces_lock(cache->descriptor, path, FF_LOCK_OPEN, 1, true, &alone, error));
done:
    if (cache->descriptor >= 0) ff_pieces_unlock(cache->descriptor, FF_LOCK_MAKING, 1);
    free(path);
    return status;
}

/* ---- the whole cache ------------------------------------------------------------------------ */

/* The bytes of a set that its header names; 0 if there is no such set. */
static uint64_t bytes_of_set(int place, const char *id) {
    ff_pieces_header header = {{0}, 0, 0, 0, 0, 0, 0};
    char name[300];
    snprintf(name, sizeof name, "%s/" FF_PIECES_NAME, id);
    const int descriptor = openat(place, name, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return 0;
    const bool whole = read(descriptor, &header, sizeof header) == (ssize_t)sizeof header;
    close(descriptor);
    return whole && !memcmp(header.magic, magic, sizeof magic) ? atomic_load(&header.bytes) : 0;
}

static ff_status count_sets(ff_cache *cache, ff_error *error) {
    DIR *sets = opendir(cache->place);
    uint64_t all = 0;
    if (!sets) return ff_fail_errno(error, "%s: cannot read the folder", cache->place);
    for (struct dirent *entry; (entry = readdir(sets));)
        if (*entry->d_name != '.' && strlen(entry->d_name) < 256)
            all += bytes_of_set(dirfd(sets), entry->d_name);
    closedir(sets);
    atomic_store(cache->usage, all);
    return FF_OK;
}

static ff_status open_usage(ff_cache *cache, ff_error *error) {
    char *path;
    uint64_t had;
    bool alone;
    ff_status status;
    FF_TRY(ff_path_join(&path, cache->place, FF_USAGE_NAME, error));
    FF_TRY_DONE(open_state(&cache->usage_descriptor, path, cache->place, FF_PIECES_HEADER_BYTES,
                           &cache->usage, &had, error));
    FF_TRY_DONE(
        ff_pieces_lock(cache->usage_descriptor, path, FF_LOCK_OPEN, 1, false, &alone, error));
    if (alone) FF_TRY_DONE(count_sets(cache, error));
    FF_TRY_DONE(
        ff_pieces_lock(cache->usage_descriptor, path, FF_LOCK_OPEN, 1, true, &alone, error));
done:
    if (cache->usage_descriptor >= 0) ff_pieces_unlock(cache->usage_descriptor, FF_LOCK_MAKING, 1);
    free(path);
    return status;
}

ff_status ff_pieces_open(ff_cache *cache, ff_error *error) {
    FF_TRY(open_set(cache, error));
    return open_usage(cache, error);
}

void ff_pieces_close(ff_cache *cache) {
    if (cache->header) munmap(cache->header, cache->map_bytes);
    if (cache->usage) munmap(cache->usage, FF_PIECES_HEADER_BYTES);
    if (cache->descriptor >= 0) close(cache->descriptor);
    if (cache->usage_descriptor >= 0) close(cache->usage_descriptor);
}
