#include "tools/ffpack/bucket/target.h"

#include "format/base/path.h"
#include "format/base/read.h"
#include "format/disk/checksum.h"
#include "format/disk/set.h"
#include "tools/ffpack/bucket/bucket.h"

#include <stdlib.h>
#include <string.h>

/* Whether readers look for a split in this folder, of `length` bytes. */
static bool is_looked_at(const ff_target *target, const char *folder, size_t length) {
    char usual[8] = "";
    if (!length) return true;
    if (length < sizeof usual) memcpy(usual, folder, length);
    bool own = *usual && ff_set_rank_of(usual) != FF_SPLIT_OTHER;
    for (size_t i = 0; i < target->splits; i++)
        own |= strlen(target->split[i]) == length && !memcmp(target->split[i], folder, length);
    return own;
}

static ff_status take(void *context, const char *name, const ff_object *object, ff_error *error) {
    ff_target *target = context;
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    uint32_t number;
    if (!ff_bucket_is_ours(base, &number) ||
        !is_looked_at(target, name, slash ? (size_t)(slash - name) : 0))
        return FF_OK;
    FF_TRY(ff_reserve(&target->entry, &target->capacity, target->count + 1, sizeof *target->entry,
                      "objects", error));
    ff_target_entry *entry = &target->entry[target->count];
    FF_TRY(ff_copy_string(&entry->name, name, error));
    entry->object = *object;
    entry->is_index = !strcmp(base, FF_INDEX_NAME);
    target->count++;
    return FF_OK;
}

static int compare(const void *a, const void *b) {
    return strcmp(((const ff_target_entry *)a)->name, ((const ff_target_entry *)b)->name);
}

ff_status ff_target_look(ff_target *target, ff_error *error) {
    ff_target_free(target);
    FF_TRY(ff_storage_may_write(target->storage, error));
    FF_TRY(ff_storage_list(target->storage, "", take, target, error));
    if (target->count) qsort(target->entry, target->count, sizeof *target->entry, compare);
    return FF_OK;
}

void ff_target_free(ff_target *target) {
    for (size_t i = 0; i < target->count; i++) free(target->entry[i].name);
    free(target->entry);
    target->entry = NULL;
    target->count = target->capacity = 0;
}

const ff_object *ff_target_find(const ff_target *target, const char *name) {
    const ff_target_entry wanted = {.name = (char *)(uintptr_t)name};
    if (!target->count) return NULL;
    const ff_target_entry *found =
        bsearch(&wanted, target->entry, target->count, sizeof *target->entry, compare);
    return found ? &found->object : NULL;
}

/* ---- which set is there --------------------------------------------------------------------- */

/* An index, on the server or on the disk. */
typedef struct index_view {
    const ff_target *target;
    const ff_target_entry *entry; /* NULL: the file `path` */
    const char *path;
    int fd;
    uint64_t bytes;
    uint8_t head[FF_HEADER_BYTES];
    ff_index_header header;
} index_view;

static ff_status read_part(const index_view *index, uint64_t offset, uint64_t bytes, void *to,
                           ff_error *error) {
    if (!index->entry) return ff_read_at(index->fd, index->path, to, bytes, offset, error);
    ff_object object = index->entry->object;
    return ff_storage_read(index->target->storage, index->entry->name, &object, offset, bytes, to,
                           error);
}

static ff_status read_section(const index_view *index, int section, uint64_t bytes, uint8_t **to,
                              ff_error *error) {
    FF_TRY(ff_alloc(to, bytes, 1, "a part of an index", error));
    return read_part(index, index->header.section[section].offset, bytes, *to, error);
}

/* Whether the own index names the other one's metadata as that of an earlier generation. */
static ff_status names(const index_view *own, const index_view *there, bool *named,
                       ff_error *error) {
    const uint64_t own_bytes = own->header.section[FF_INDEX_METADATA].bytes,
                   bytes = there->header.section[FF_INDEX_METADATA].bytes;
    uint8_t *text = NULL, *earlier = NULL, id[16];
    ff_metadata metadata = {0};
    ff_status status;
    *named = false;
    FF_TRY_DONE(read_section(own, FF_INDEX_METADATA, own_bytes, &text, error));
    FF_TRY_DONE(ff_metadata_read(&metadata, (const char *)text, own_bytes, error));
    FF_TRY_DONE(read_section(there, FF_INDEX_METADATA, bytes, &earlier, error));
    status = FF_OK;
    ff_id_of(id, earlier, bytes);
    for (size_t i = 0; i < metadata.generation_count; i++)
        *named |= metadata.generation[i].shards == there->header.shard_count &&
                  !memcmp(metadata.generation[i].id, id, sizeof id);
done:
    ff_metadata_free(&metadata);
    free(text);
    free(earlier);
    return status;
}

/* Whether an append has made the own set of the one that is there. Then its shards are the own
 * first ones: their rows are compared, which have the checksums of the footers, which have those of
 * everything else. */
static ff_status is_earlier(const index_view *own, const index_view *there, bool *earlier,
                            ff_error *error) {
    const uint64_t bytes = (uint64_t)there->header.shard_count * FF_SHARD_ROW_BYTES;
    uint8_t *row = NULL, *found = NULL;
    ff_status status;
    *earlier = false;
    if (there->header.shard_count >= own->header.shard_count) return FF_OK;
    FF_TRY(names(own, there, earlier, error));
    if (!*earlier) return FF_OK;
    FF_TRY_DONE(read_section(own, FF_INDEX_SHARDS, bytes, &row, error));
    FF_TRY_DONE(read_section(there, FF_INDEX_SHARDS, bytes, &found, error));
    status = FF_OK;
    *earlier = !memcmp(row, found, bytes);
done:
    free(row);
    free(found);
    return status;
}

/* Whether the set that is there is the own one, or an earlier generation of it. The header of an
 * index names ids and checksums of all that the set holds. */
static ff_status compare_indexes(index_view *own, index_view *there, bool *known, ff_error *error) {
    *known = false;
    if (own->bytes < sizeof own->head || there->bytes < sizeof there->head) return FF_OK;
    FF_TRY(read_part(own, 0, sizeof own->head, own->head, error));
    FF_TRY(read_part(there, 0, sizeof there->head, there->head, error));
    *known = own->bytes == there->bytes && !memcmp(own->head, there->head, sizeof own->head);
    if (*known || ff_index_header_decode(&there->header, there->head, there->bytes, there->path,
                                         NULL) != FF_OK)
        return FF_OK;
    FF_TRY(ff_index_header_decode(&own->header, own->head, own->bytes, own->path, error));
    return is_earlier(own, there, known, error);
}

static ff_status is_known(const ff_target *target, const ff_target_entry *entry, const char *path,
                          bool *known, ff_error *error) {
    index_view own = {.path = path}, there = {.target = target,
                                              .entry = entry,
                                              .path = entry->name,
                                              .bytes = entry->object.bytes};
    *known = false;
    if (!ff_path_exists("%s", path)) return FF_OK;
    FF_TRY(ff_open_file(path, &own.fd, &own.bytes, error));
    const ff_status status = compare_indexes(&own, &there, known, error);
    ff_close_file(&own.fd);
    return status;
}

ff_status ff_target_compare(const ff_target *target, const char *folder, const char **other,
                            ff_error *error) {
    *other = NULL;
    for (size_t i = 0; i < target->count && !*other; i++) {
        const ff_target_entry *entry = &target->entry[i];
        char *path;
        bool known;
        if (!entry->is_index) continue;
        FF_TRY(ff_path_join(&path, folder, entry->name, error));
        const ff_status status = is_known(target, entry, path, &known, error);
        free(path);
        FF_TRY(status);
        if (!known) *other = entry->name;
    }
    return FF_OK;
}

ff_status ff_target_refuse(const ff_target *target, const char *other, ff_error *error) {
    return ff_fail(error, FF_USAGE,
                   "%s: exists already, as another set (its %s is another); --force replaces it",
                   ff_storage_url(target->storage), other);
}

ff_status ff_target_remove(ff_target *target, ff_storage_names *keep, void *context,
                           uint64_t *removed, ff_error *error) {
    for (int rest = 0; rest < 2; rest++)
        for (size_t i = 0; i < target->count; i++) {
            ff_target_entry *entry = &target->entry[i];
            if (entry->is_index == (rest == 1)) continue;
            if (rest && keep && keep(context, entry->name)) continue;
            FF_TRY(ff_storage_remove(target->storage, entry->name, error));
            entry->object = (ff_object){0};
            ++*removed;
        }
    return ff_target_look(target, error);
}
