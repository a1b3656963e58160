#include "format/storage/cache.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/storage/pieces.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- place and size ------------------------------------------------------------------------- */

static ff_status choose_place(char **place, const ff_cache_options *options, ff_error *error) {
    const char *own = getenv("FFPACK_CACHE"), *shared = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (options->folder) return ff_copy_string(place, options->folder, error);
    if (own && *own) return ff_copy_string(place, own, error);
    if (shared && *shared) return ff_path_join(place, shared, "ffpack", error);
    if (home && *home) return ff_path_join(place, home, ".cache/ffpack", error);
    return ff_fail(
        error, FF_USAGE,
        "a set behind a URL needs a cache, and HOME is not set: --cache DIR or FFPACK_CACHE=DIR");
}

ff_status ff_cache_place(char **folder, const ff_cache_options *options, const char *id,
                         ff_error *error) {
    char *place = NULL;
    ff_status status;
    *folder = NULL;
    FF_TRY_DONE(choose_place(&place, options, error));
    FF_TRY_DONE(ff_path_join(folder, place, id, error));
    status = ff_make_folders(*folder, error);
done:
    free(place);
    if (status != FF_OK) free(*folder), *folder = NULL;
    return status;
}

/* "200G": a number of bytes, or of K, M, G or T of them. */
static ff_status read_size(uint64_t *bytes, const char *text, ff_error *error) {
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    *bytes = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    const bool sound = end > text && *text != '-' && !errno && (!*end || (unit && !end[1])) &&
                       *bytes && *bytes <= UINT64_MAX >> shift;
    *bytes <<= sound ? shift : 0;
    return sound ? FF_OK
                 : ff_fail(error, FF_USAGE, "FFPACK_CACHE_SIZE=%s: is not a size as in 200G", text);
}

static ff_status choose_limit(ff_cache *cache, const ff_cache_options *options, ff_error *error) {
    struct statvfs space;
    const char *given = getenv("FFPACK_CACHE_SIZE");
    cache->limit = options->bytes;
    if (!cache->limit && given && *given) FF_TRY(read_size(&cache->limit, given, error));
    if (cache->limit) return FF_OK;
    if (statvfs(cache->place, &space))
        return ff_fail_errno(error, "%s: cannot ask for its space", cache->place);
    cache->limit = ((uint64_t)space.f_bavail * space.f_frsize + atomic_load(cache->usage)) / 2;
    return FF_OK;
}

/* ---- open and close ------------------------------------------------------------------------- */

static ff_status copy_objects(ff_cache *cache, const ff_cached_object *object, uint32_t count,
                              ff_error *error) {
    uint64_t pieces = 0;
    FF_TRY(ff_alloc(&cache->file, (uint64_t)count + 1, sizeof *cache->file, "a cache", error));
    cache->count = count;
    for (uint32_t i = 0; i <= count; i++) {
        struct ff_cache_file *file = &cache->file[i];
        file->first_piece = (uint32_t)pieces;
        if (i == count) break;
        file->bytes = object[i].bytes;
        if (strlen(object[i].name) >= FF_NAME_BYTES)
            return ff_fail(error, FF_USAGE, "%s: too long a name for the cache", object[i].name);
        FF_TRY(ff_copy_string(&file->name, object[i].name, error));
        pieces += (object[i].bytes + FF_PIECE_BYTES - 1) / FF_PIECE_BYTES;
        if (pieces > UINT32_MAX)
            return ff_fail(error, FF_USAGE, "%s: has more than 4 PiB", cache->folder);
    }
    FF_TRY(ff_alloc(&cache->wanted, pieces, sizeof *cache->wanted, "a cache", error));
    return ff_alloc(&cache->busy, pieces, sizeof *cache->busy, "a cache", error);
}

static ff_status open_all(ff_cache *cache, const ff_cache_options *options,
                          const ff_cached_object *object, uint32_t count, ff_error *error) {
    const size_t length = (size_t)(ff_path_base(cache->folder) - cache->folder);
    FF_TRY(ff_copy_bytes(&cache->place, cache->folder, length > 1 ? length - 1 : 1, error));
    FF_TRY(copy_objects(cache, object, count, error));
    FF_TRY(ff_pieces_open(cache, error));
    return choose_limit(cache, options, error);
}

ff_status ff_cache_open(ff_cache **out, const ff_cache_options *options, const char *folder,
                        ff_storage *storage, const ff_cached_object *object, uint32_t count,
                        ff_error *error) {
    ff_cache *cache;
    *out = NULL;
    FF_TRY(ff_alloc(&cache, 1, sizeof *cache, "a cache", error));
    cache->storage = storage;
    cache->writing_most = ff_descriptor_share(8, 2, 64); /* 64 threads fetch at a time */
    cache->descriptor = cache->usage_descriptor = -1;
    pthread_mutex_init(&cache->mutex, NULL);
    pthread_mutex_init(&cache->removing, NULL);
    pthread_cond_init(&cache->done, NULL);
    ff_status status = ff_copy_string(&cache->folder, folder, error);
    if (status == FF_OK) status = open_all(cache, options, object, count, error);
    if (status != FF_OK) ff_cache_close(&cache);
    *out = cache;
    return status;
}

/* What is usually kept of an object's ends. */
#define END_BYTES (UINT64_C(24) << 10)

ff_cache_space ff_cache_space_of(const ff_cache *cache) {
    return (ff_cache_space){.place = cache->place,
                            .limit = cache->limit,
                            .all = cache->file[cache->count].first_piece * FF_PIECE_BYTES +
                                   cache->count * END_BYTES,
                            .there = atomic_load(&cache->header->bytes)};
}

void ff_cache_close(ff_cache **out) {
    ff_cache *cache = *out;
    if (!cache) return;
    for (uint32_t i = 0; cache->file && i < cache->count; i++) free(cache->file[i].name);
    ff_room_leave(cache);
    ff_pieces_close(cache);
    pthread_cond_destroy(&cache->done);
    pthread_mutex_destroy(&cache->removing);
    pthread_mutex_destroy(&cache->mutex);
    free(cache->file);
    free(cache->busy);
    free(cache->wanted);
    free(cache->place);
    free(cache->folder);
    free(cache);
    *out = NULL;
}

uint32_t ff_cache_removals(const ff_cache *cache) {
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(&cache->header->removals);
}

ff_status ff_cache_check(const ff_cache *cache, ff_error *error) {
    struct stat info;
    if (fstat(cache->descriptor, &info) == 0 && info.st_nlink) return FF_OK;
    return ff_fail(error, FF_IO, "%s: was removed while it is in use", cache->folder);
}

/* Whether the state has parts of an object's file. */
static bool has_parts(const ff_cache *cache, uint32_t object) {
    const struct ff_cache_file *file = &cache->file[object];
    bool any = atomic_load(&cache->row[object].head) || atomic_load(&cache->row[object].tail);
    for (uint32_t p = file->first_piece; p < file[1].first_piece && !any; p++)
        any = atomic_load(&cache->counter[p]) % 2;
    return any;
}

bool ff_cache_file_is_lost(const ff_cache *cache, uint32_t object) {
    char *path;
    if (ff_path_join(&path, cache->folder, cache->file[object].name, NULL) != FF_OK) return false;
    const bool lost = access(path, F_OK) != 0 && errno == ENOENT;
    free(path);
    return lost;
}

/* Readers have opened what was removed, and would not find there what is fetched into a new file.
 */
static ff_status check_file(const ff_cache *cache, uint32_t object, int descriptor,
                            const char *path, ff_error *error) {
    const struct ff_cache_file *file = &cache->file[object];
    struct stat info;
    FF_TRY(ff_cache_check(cache, error));
    if (fstat(descriptor, &info)) return ff_fail_errno(error, "%s: cannot stat", path);
    if (!info.st_size && has_parts(cache, object) && fstat(descriptor, &info) == 0 &&
        !info.st_size) {
        (void)unlink(path);
        return ff_fail(error, FF_IO, "%s: was removed while it is in use", path);
    }
    if ((uint64_t)info.st_size != file->bytes && ftruncate(descriptor, (off_t)file->bytes))
        return ff_fail_errno(error, "%s: cannot write into the cache", path);
    return FF_OK;
}

/* A file is made with the object's size at its first use. */
ff_status ff_cache_file_open(const ff_cache *cache, uint32_t object, int *descriptor,
                             ff_error *error) {
    char *path;
    FF_TRY(ff_path_join(&path, cache->folder, cache->file[object].name, error));
    *descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    const ff_status status = *descriptor < 0
                                 ? ff_fail_errno(error, "%s: cannot write into the cache", path)
                                 : check_file(cache, object, *descriptor, path, error);
    free(path);
    if (status != FF_OK && *descriptor >= 0) close(*descriptor);
    return status;
}
