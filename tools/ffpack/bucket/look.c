#include "format/reader/history.h"
#include "tools/ffpack/bucket/bucket.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool ff_bucket_is_ours(const char *name, uint32_t *number) {
    *number = UINT32_MAX;
    return ff_shard_name_parse(name, number) || !strcmp(name, FF_INDEX_NAME) ||
           !strcmp(name, FF_HISTORY_NAME);
}

/* The set of this folder. Names come in order, so a folder that was seen is near the end. */
static ff_status find_set(ff_bucket_view *view, const char *name, size_t length,
                          ff_bucket_set **set, ff_error *error) {
    for (size_t i = view->count; i--;) {
        *set = &view->set[i];
        if (!strncmp((*set)->name, name, length) && !(*set)->name[length]) return FF_OK;
    }
    FF_TRY(ff_reserve(&view->set, &view->capacity, view->count + 1, sizeof *view->set,
                      "the list of sets", error));
    *set = &view->set[view->count];
    FF_TRY(ff_copy_bytes(&(*set)->name, name, length, error));
    view->count++;
    return FF_OK;
}

static ff_status take(void *context, const char *name, const ff_object *object, ff_error *error) {
    ff_bucket_view *view = context;
    ff_bucket_set *set;
    uint32_t number;
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    if (!ff_bucket_is_ours(base, &number)) {
        view->others++;
        view->other_bytes += object->bytes;
        return FF_OK;
    }
    FF_TRY(find_set(view, name, slash ? (size_t)(slash - name) : 0, &set, error));
    set->bytes += object->bytes;
    set->shards += number != UINT32_MAX;
    if (strcmp(base, FF_INDEX_NAME)) return FF_OK;
    set->has_index = true;
    set->index = *object;
    return FF_OK;
}

static ff_status read_header(ff_bucket_set *set, ff_storage *storage, ff_error *error) {
    uint8_t bytes[FF_HEADER_BYTES];
    char *name, *path = NULL;
    const char *slash = *set->name ? "/" : "";
    ff_status status;
    FF_TRY(ff_format(&name, error, "%s%s" FF_INDEX_NAME, set->name, slash));
    FF_TRY_DONE(ff_format(&path, error, "%s/%s", ff_storage_url(storage), name));
    if (set->index.bytes < sizeof bytes)
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "%s: too short for an index", path));
    FF_TRY_DONE(ff_storage_read(storage, name, &set->index, 0, sizeof bytes, bytes, error));
    status = ff_index_header_decode(&set->header, bytes, set->index.bytes, path, error);
done:
    free(name);
    free(path);
    return status;
}

static int compare(const void *a, const void *b) {
    const ff_bucket_set *left = a, *right = b;
    return strcmp(left->name, right->name);
}

ff_status ff_bucket_look(ff_bucket_view *view, ff_storage *storage, ff_error *error) {
    *view = (ff_bucket_view){0};
    FF_TRY(ff_storage_list(storage, "", take, view, error));
    if (view->count) qsort(view->set, view->count, sizeof *view->set, compare);
    for (size_t i = 0; i < view->count; i++)
        if (view->set[i].has_index) FF_TRY(read_header(&view->set[i], storage, error));
    return FF_OK;
}

void ff_bucket_view_free(ff_bucket_view *view) {
    for (size_t i = 0; i < view->count; i++) free(view->set[i].name);
    free(view->set);
    *view = (ff_bucket_view){0};
}
