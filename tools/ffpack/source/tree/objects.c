/* Image folders in a bucket: the objects below a prefix, as the files that they would be in a
 * folder of this machine. A key that ends with a slash is a folder. */
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "tools/ffpack/source/tree/tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_LIMIT_BYTES (UINT64_C(64) << 20)

typedef struct objects {
    ff_storage *storage;
    ff_tree *tree;
    uint64_t count;
    const char *name; /* of the object that is being added */
    uint64_t bytes;
    ff_progress progress;
} objects;

/* ---- what the tree reads -------------------------------------------------------------------- */

static ff_status look(void *context, unsigned char *head, size_t size, size_t *got,
                      ff_error *error) {
    const objects *from = context;
    ff_object object = {0};
    *got = from->bytes < size ? (size_t)from->bytes : size;
    return *got ? ff_storage_read(from->storage, from->name, &object, 0, *got, head, error) : FF_OK;
}

static ff_status open_table(void *context, const char *name, ff_table **table, ff_error *error) {
    const objects *from = context;
    ff_object object;
    bool there;
    char *path, *text = NULL;
    FF_TRY(ff_format(&path, error, "%s/%s", ff_storage_url(from->storage), name));
    ff_status status;
    FF_TRY_DONE(ff_storage_find(from->storage, name, &object, &there, error));
    if (!there) FF_TRY_DONE(ff_fail(error, FF_IO, "%s: was removed since it was listed", path));
    if (object.bytes > TABLE_LIMIT_BYTES)
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "%s: has %" PRIu64 " bytes, more than %" PRIu64,
                            path, object.bytes, TABLE_LIMIT_BYTES));
    FF_TRY_DONE(ff_alloc(&text, object.bytes + 1, 1, "a list of labels", error));
    if (object.bytes)
        FF_TRY_DONE(ff_storage_read(from->storage, name, &object, 0, object.bytes, text, error));
    status = ff_table_open_text(table, path, text, object.bytes, true, error);
    text = NULL;
done:
    free(text);
    free(path);
    return status;
}

/* ---- listing -------------------------------------------------------------------------------- */

/* Parts that a folder of this machine cannot have: "", "." and "..". */
static bool is_path(const char *name, size_t length) {
    for (const char *part = name, *end = name + length;; part++) {
        const char *slash = memchr(part, '/', (size_t)(end - part));
        const size_t bytes = (size_t)((slash ? slash : end) - part);
        if (!bytes || (bytes <= 2 && !strncmp(part, "..", bytes))) return false;
        if (!slash) return true;
        part = slash;
    }
}

static ff_status add_folder(objects *to, const char *name, size_t bytes, ff_error *error) {
    char *folder;
    bool taken;
    FF_TRY(ff_copy_bytes(&folder, name, bytes, error));
    const ff_status status = ff_tree_add_folder(to->tree, folder, &taken, error);
    free(folder);
    return status;
}

static ff_status take_object(void *context, const char *name, const ff_object *object,
                             ff_error *error) {
    objects *to = context;
    const size_t length = strlen(name);
    const bool folder = length && name[length - 1] == '/';
    if (!length) return FF_OK; /* the prefix itself, as consoles create it */
    if (!is_path(name, length - folder))
        return ff_fail(error, FF_BAD_DATA,
                       "%s/%.200s: has an empty part, '.' or '..' between slashes, which no file's "
                       "path has; wanted another key",
                       ff_storage_url(to->storage), name);
    to->name = name;
    to->bytes = object->bytes;
    ff_progress_update(&to->progress, ++to->count, NULL);
    if (folder) return add_folder(to, name, length - 1, error);
    const ff_tree_place place = {.offset = to->count, .bytes = object->bytes};
    return ff_tree_add_file(to->tree, name, &place, NULL, error);
}

static ff_status list_all(objects *to, ff_error *error) {
    ff_progress_begin(&to->progress, "listing", "objects", 0, false);
    const ff_status status = ff_storage_list(to->storage, "", take_object, to, error);
    ff_progress_end(&to->progress);
    FF_TRY(status);
    if (to->count) return FF_OK;
    return ff_fail(error, FF_IO, "%s: there is no such object, and none below it",
                   ff_storage_url(to->storage));
}

ff_status ff_tree_list_objects(ff_source *source, ff_error *error) {
    objects from = {.storage = ff_elsewhere_folder()};
    const ff_tree_options options = {
        .files = true, .rooted = true, .context = &from, .look = look, .open = open_table};
    FF_TRY(ff_tree_create(&from.tree, source, source->path, &options, error));
    ff_status status;
    FF_TRY_DONE(list_all(&from, error));
    FF_TRY_DONE(ff_tree_fill(from.tree, FF_PART_FILE, true, error));
done:
    ff_tree_destroy(&from.tree);
    return status;
}
