#include "tools/ffpack/bucket/target.h"

#include "format/base/path.h"
#include "format/base/read.h"
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

/* The header of an index names ids and checksums of all that the set holds. */
static ff_status is_same(const ff_target *target, const ff_target_entry *entry, const char *path,
                         bool *same, ff_error *error) {
    uint8_t own[FF_HEADER_BYTES], found[FF_HEADER_BYTES] = {0};
    ff_object object = entry->object;
    uint64_t bytes;
    int fd;
    *same = false;
    if (!ff_path_exists("%s", path)) return FF_OK;
    FF_TRY(ff_open_file(path, &fd, &bytes, error));
    ff_status status = FF_OK;
    if (bytes == object.bytes && bytes >= sizeof own) {
        status = ff_read_at(fd, path, own, sizeof own, 0, error);
        if (status == FF_OK)
            status = ff_storage_read(target->storage, entry->name, &object, 0, sizeof found, found,
                                     error);
        *same = status == FF_OK && !memcmp(own, found, sizeof own);
    }
    ff_close_file(&fd);
    return status;
}

ff_status ff_target_compare(const ff_target *target, const char *folder, const char **other,
                            ff_error *error) {
    *other = NULL;
    for (size_t i = 0; i < target->count && !*other; i++) {
        const ff_target_entry *entry = &target->entry[i];
        char *path;
        bool same;
        if (!entry->is_index) continue;
        FF_TRY(ff_path_join(&path, folder, entry->name, error));
        const ff_status status = is_same(target, entry, path, &same, error);
        free(path);
        FF_TRY(status);
        if (!same) *other = entry->name;
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
