#include "format/reader/remote.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/cli/interrupt.h"
#include "format/disk/checksum.h"
#include "format/reader/history.h"
#include "format/reader/index.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct ff_remote {
    ff_storage *storage;
    ff_cache *cache;
    ff_storage_options options; /* with the two texts */
    char *endpoint, *place;
    char *folder;
    ff_object index; /* what the server said of it; zero before */
    ff_dataset_next *next;
    void *context;
    uint32_t first_shard;
};

/* Opening a shard reads at least these; the rest of larger tables is fetched by their size. */
#define END_BYTES     (UINT64_C(16) << 10)
#define HISTORY_BYTES (UINT64_C(16) << 20)
/* An index of at most these bytes is fetched whole, by one request. */
#define WHOLE_BYTES (UINT64_C(1) << 20)

const char *ff_remote_url(const ff_remote *remote) {
    return ff_storage_url(remote->storage);
}
const ff_storage_options *ff_remote_options(const ff_remote *remote) {
    return &remote->options;
}
ff_cache *ff_remote_cache(const ff_remote *remote) {
    return remote->cache;
}

static ff_cache_options cache_options(const ff_remote *remote) {
    return (ff_cache_options){.folder = remote->options.cache,
                              .bytes = remote->options.cache_bytes};
}

/* ---- the index ------------------------------------------------------------------------------ */

/* A file of the set, into the cache: bytes from `begin` on. `look`: what is before them, as far as
 * it was read; else zeros. */
static ff_status save(const ff_remote *remote, const char *name, uint64_t begin,
                      const uint8_t *bytes, uint64_t count, const ff_look *look, ff_error *error) {
    ff_file *file = NULL;
    char *path;
    ff_status status;
    FF_TRY(ff_path_join(&path, remote->folder, name, error));
    FF_TRY_DONE(ff_file_replace(&file, path, error));
    if (begin) FF_TRY_DONE(ff_file_rewrite(file, 0, look->head, FF_HEADER_BYTES, error));
    FF_TRY_DONE(ff_file_rewrite(file, begin, bytes, count, error));
    status = ff_file_commit(&file, error);
done:
    ff_file_discard(&file);
    free(path);
    return status;
}

/* All bytes of an object, of which the begin was read; allocated. */
static ff_status read_rest(const ff_remote *remote, const char *name, const ff_look *look,
                           uint8_t **bytes, ff_error *error) {
    ff_object object = look->object;
    const uint64_t all = object.bytes, head = look->head_bytes;
    ff_status status = FF_OK;
    FF_TRY(ff_alloc(bytes, all, 1, name, error));
    memcpy(*bytes, look->head, head);
    if (all > head)
        status =
            ff_storage_read(remote->storage, name, &object, head, all - head, *bytes + head, error);
    if (status == FF_OK && object.bytes != all)
        status = ff_fail(error, FF_IO, "%s/%s: was replaced while it was read",
                         ff_storage_url(remote->storage), name);
    if (status != FF_OK) free(*bytes), *bytes = NULL;
    return status;
}

ff_status ff_remote_read_index(const ff_remote *remote, uint64_t offset, uint64_t bytes, void *to,
                               ff_error *error) {
    ff_object object = remote->index;
    return ff_storage_read(remote->storage, FF_INDEX_NAME, &object, offset, bytes, to, error);
}

/* The set's history, if it has one of a sensible size. */
static ff_status fetch_history(const ff_remote *remote, ff_error *error) {
    ff_look look;
    uint8_t *bytes = NULL;
    FF_TRY(ff_storage_look(remote->storage, FF_HISTORY_NAME, &look, error));
    ff_status status = FF_OK;
    if (look.there && look.object.bytes <= HISTORY_BYTES) {
        status = read_rest(remote, FF_HISTORY_NAME, &look, &bytes, error);
        if (status == FF_OK)
            status = save(remote, FF_HISTORY_NAME, 0, bytes, look.object.bytes, &look, error);
    }
    free(bytes);
    ff_look_free(&look);
    return status;
}

/* Whether an index has its checksums: the header's table covers its blocks (FORMAT.md). */
static ff_status check_index(const ff_index_header *header, const uint8_t *bytes, const char *path,
                             ff_error *error) {
    const ff_section *table = &header->section[FF_INDEX_CHECKSUMS];
    FF_TRY(ff_index_check_table(header, bytes + table->offset, path, error));
    return ff_index_check_blocks(header, 0, table->bytes / 8, bytes + FF_HEADER_BYTES,
                                 bytes + table->offset, path, error);
}

/* Fetches the rest of the index into the cache, after the history. */
static ff_status fetch_index(const ff_remote *remote, const ff_index_header *header,
                             const ff_look *look, const char *url, ff_error *error) {
    uint8_t *bytes;
    ff_status status;
    FF_TRY(read_rest(remote, FF_INDEX_NAME, look, &bytes, error));
    FF_TRY_DONE(check_index(header, bytes, url, error));
    FF_TRY_DONE(fetch_history(remote, error));
    status = save(remote, FF_INDEX_NAME, 0, bytes, look->object.bytes, look, error);
done:
    free(bytes);
    return status;
}

/* The same for a large index: only its table of checksums, by which all else is fetched later. */
static ff_status fetch_table(const ff_remote *remote, const ff_index_header *header,
                             const ff_look *look, const char *url, ff_error *error) {
    const uint64_t begin = header->section[FF_INDEX_CHECKSUMS].offset;
    const uint64_t count = header->file_bytes - begin;
    uint8_t *bytes;
    ff_status status;
    FF_TRY(ff_alloc(&bytes, count, 1, "a table of checksums", error));
    FF_TRY_DONE(ff_remote_read_index(remote, begin, count, bytes, error));
    FF_TRY_DONE(ff_index_check_table(header, bytes, url, error));
    FF_TRY_DONE(fetch_history(remote, error));
    status = save(remote, FF_INDEX_NAME, begin, bytes, count, look, error);
done:
    free(bytes);
    return status;
}

/* The name of a set's folder: a hash of its index's header, which has ids and checksums of all that
 * the set holds. */
static ff_status find_folder(ff_remote *remote, const ff_look *look, const char *url,
                             ff_index_header *header, ff_error *error) {
    uint8_t id[16];
    char name[33];
    if (!look->there)
        return ff_fail(error, FF_IO,
                       "%s: there is no " FF_INDEX_NAME
                       "; a URL names one split, as in .../set/train",
                       ff_storage_url(remote->storage));
    if (look->head_bytes < FF_HEADER_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: too short for an index", url);
    FF_TRY(ff_index_header_decode(header, look->head, look->object.bytes, url, error));
    ff_id_of(id, look->head, FF_HEADER_BYTES);
    ff_hex(name, id, sizeof id);
    free(remote->folder);
    const ff_cache_options options = cache_options(remote);
    return ff_cache_place(&remote->folder, &options, name, error);
}

/* One process at a time: the others find the file, which all share, with what is fetched of it
 * later.
 */
static ff_status fetch_alone(const ff_remote *remote, const ff_index_header *header,
                             const ff_look *look, const char *path, const char *url,
                             ff_error *error) {
    const struct timespec slice = {.tv_nsec = 1000 * 1000};
    bool unlocked;
    int folder = open(remote->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return ff_fail_errno(error, "%s: cannot open the folder", remote->folder);
    ff_status status = FF_OK;
    while (status == FF_OK && ff_lock_folder(folder, remote->folder, &unlocked, NULL) == FF_USAGE) {
        status = ff_interrupt_check(error);
        nanosleep(&slice, NULL);
    }
    if (status == FF_OK && access(path, R_OK) != 0)
        status = header->file_bytes > WHOLE_BYTES ? fetch_table(remote, header, look, url, error)
                                                  : fetch_index(remote, header, look, url, error);
    ff_close_file(&folder);
    return status;
}

static ff_status open_index(ff_remote *remote, const char *url, ff_error *error) {
    ff_look look;
    ff_index_header header;
    char *path = NULL;
    remote->index = (ff_object){0};
    FF_TRY(ff_storage_look(remote->storage, FF_INDEX_NAME, &look, error));
    remote->index = look.object;
    ff_status status = find_folder(remote, &look, url, &header, error);
    if (status == FF_OK) status = ff_path_join(&path, remote->folder, FF_INDEX_NAME, error);
    if (status == FF_OK && access(path, R_OK) != 0)
        status = fetch_alone(remote, &header, &look, path, url, error);
    free(path);
    ff_look_free(&look);
    return status;
}

/* Whether the index that is there now is another one than was looked at, as after ffpack push. */
static bool was_replaced(const ff_remote *remote) {
    const ff_object *known = &remote->index;
    ff_object now;
    bool there;
    return *known->version &&
           ff_storage_find(remote->storage, FF_INDEX_NAME, &now, &there, NULL) == FF_OK && there &&
           (now.bytes != known->bytes || strcmp(now.version, known->version) != 0);
}

/* What was changed on its way, or replaced while it was read, is fetched once more. */
static ff_status open_index_twice(ff_remote *remote, ff_error *error) {
    char *url;
    FF_TRY(ff_format(&url, error, "%s/" FF_INDEX_NAME, ff_storage_url(remote->storage)));
    ff_status status = open_index(remote, url, error);
    if (status == FF_BAD_DATA || (status == FF_IO && was_replaced(remote)))
        status = open_index(remote, url, error);
    free(url);
    return status;
}

static ff_status copy_options(ff_remote *remote, const ff_storage_options *options,
                              ff_error *error) {
    remote->options = ff_storage_chosen(options);
    remote->options.check = ff_interrupt_check;
    if (remote->options.endpoint)
        FF_TRY(ff_copy_string(&remote->endpoint, remote->options.endpoint, error));
    if (remote->options.cache) FF_TRY(ff_copy_string(&remote->place, remote->options.cache, error));
    remote->options.endpoint = remote->endpoint;
    remote->options.cache = remote->place;
    return FF_OK;
}

ff_status ff_remote_open(ff_remote **out, const char *url, const ff_storage_options *options,
                         char **folder, ff_error *error) {
    ff_remote *remote;
    ff_status status;
    *out = NULL;
    *folder = NULL;
    FF_TRY(ff_alloc(&remote, 1, sizeof *remote, "a set behind a URL", error));
    FF_TRY_DONE(copy_options(remote, options, error));
    FF_TRY_DONE(ff_storage_open(&remote->storage, url, &remote->options, error));
    FF_TRY_DONE(open_index_twice(remote, error));
    status = ff_copy_string(folder, remote->folder, error);
done:
    if (status != FF_OK) ff_remote_close(&remote);
    *out = remote;
    return status;
}

void ff_remote_close(ff_remote **remote) {
    if (!*remote) return;
    ff_cache_close(&(*remote)->cache);
    ff_storage_close(&(*remote)->storage);
    free((*remote)->folder);
    free((*remote)->endpoint);
    free((*remote)->place);
    free(*remote);
    *remote = NULL;
}

/* ---- the shards ----------------------------------------------------------------------------- */

ff_status ff_remote_shards(ff_remote *remote, const ff_shard_row *row, uint32_t count,
                           ff_error *error) {
    ff_cached_object *object;
    char(*name)[32];
    ff_status status;
    FF_TRY(ff_alloc(&object, count, sizeof *object, "shards", error));
    FF_TRY_DONE(ff_alloc(&name, count, sizeof *name, "shards", error));
    for (uint32_t i = 0; i < count; i++) {
        ff_shard_name(name[i], i);
        object[i] = (ff_cached_object){name[i], row[i].file_bytes};
    }
    const ff_cache_options options = cache_options(remote);
    status = ff_cache_open(&remote->cache, &options, remote->folder, remote->storage, object, count,
                           error);
    free(name);
done:
    free(object);
    return status;
}

/* Bytes after the samples of a shard whose ends are there: what its footer says. */
static ff_status table_bytes(const ff_remote *remote, uint32_t number, uint64_t *bytes,
                             ff_error *error) {
    ff_shard shard;
    FF_TRY(ff_shard_look(&shard, remote->folder, number, error));
    uint64_t first = shard.footer_offset;
    for (int i = 0; i < FF_SHARD_SECTIONS; i++)
        if (shard.footer.section[i].bytes && shard.footer.section[i].offset < first)
            first = shard.footer.section[i].offset;
    *bytes = shard.bytes - first;
    ff_shard_close(&shard);
    return FF_OK;
}

/* The last bytes of a compressed shard say how long its seek table is, before which the footer
 * stands. */
static ff_status keep_footer(ff_remote *remote, uint32_t number, ff_error *error) {
    uint8_t end[FF_SEEK_FOOTER_BYTES];
    char name[32], *path;
    int fd;
    uint64_t bytes;
    FF_TRY(ff_cache_keep(remote->cache, number, FF_HEADER_BYTES, END_BYTES, error));
    ff_shard_name(name, number);
    FF_TRY(ff_path_join(&path, remote->folder, name, error));
    ff_status status = ff_open_file(path, &fd, &bytes, error);
    if (status == FF_OK && bytes >= sizeof end)
        status = ff_read_at(fd, path, end, sizeof end, bytes - sizeof end, error);
    ff_close_file(&fd);
    free(path);
    FF_TRY(status);
    if (bytes < sizeof end || ff_load_u32(end + 5) != FF_SEEK_FOOTER_MAGIC) return FF_OK;
    return ff_cache_keep(remote->cache, number, FF_HEADER_BYTES,
                         (uint64_t)ff_load_u32(end) * FF_SEEK_ROW_BYTES + END_BYTES, error);
}

ff_status ff_remote_shard(ff_remote *remote, uint32_t number, bool tables, bool whole,
                          ff_error *error) {
    uint64_t bytes;
    if (whole) return ff_cache_pin(remote->cache, number, error);
    FF_TRY(keep_footer(remote, number, error));
    if (!tables) return FF_OK;
    FF_TRY(table_bytes(remote, number, &bytes, error));
    return ff_cache_keep(remote->cache, number, FF_HEADER_BYTES, bytes, error);
}

ff_status ff_remote_shard_again(ff_remote *remote, uint32_t number, ff_error *error) {
    return ff_cache_keep_again(remote->cache, number, error);
}

static uint64_t next_of(void *context, uint32_t object, uint32_t piece) {
    const ff_remote *remote = context;
    return remote->next(remote->context, remote->first_shard + object, piece);
}

void ff_remote_foresee(ff_remote *remote, ff_dataset_next *next, void *context,
                       uint32_t first_shard) {
    ff_cache_foresee(remote->cache, NULL, NULL); /* nobody calls the old one after this */
    remote->next = next;
    remote->context = context;
    remote->first_shard = first_shard;
    if (next) ff_cache_foresee(remote->cache, next_of, remote);
}
