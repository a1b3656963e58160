#include "tools/ffinspect/facts/splits.h"

#include "format/base/memory.h"
#include "format/base/path.h"

#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && !strcmp(text + length - end_length, end);
}

static int compare(const void *a, const void *b) {
    const ff_split *left = a, *right = b;
    int order = (int)ff_set_rank_of(left->name) - (int)ff_set_rank_of(right->name);
    return order ? order : strcmp(left->name, right->name);
}

/* Fails with the reason why the folder is not a packed set, and what to do about it. */
static ff_status no_set(const char *path, ff_error *error) {
    const bool unfinished = ends_with(path, ".partial") || ff_path_exists("%s.partial", path);
    return ff_fail(
        error, FF_BAD_DATA,
        "%s: is not a packed set: it holds no index.ffx, and no folder in it does%s", path,
        unfinished ? "; its packing was not finished: the same ffpack command continues" : "");
}

static ff_status find(ff_set *set, const char *path, ff_error *error) {
    FF_TRY(ff_set_check_folder(path, error));
    FF_TRY(ff_set_find(set, path, error));
    if (set->count) qsort(set->split, set->count, sizeof *set->split, compare);
    return set->count ? FF_OK : no_set(path, error);
}

ff_status ff_inspect_find_splits(ff_set *set, const char *path, ff_error *error) {
    *set = (ff_set){0};
    char *plain;
    FF_TRY(ff_copy_bytes(&plain, path, ff_path_length(path), error));
    ff_status status = find(set, plain, error);
    free(plain);
    return status;
}

ff_status ff_inspect_one_split(const ff_set *set, const char *path, const char *option,
                               ff_error *error) {
    if (set->count == 1) return FF_OK;
    ff_buffer names = {0};
    ff_status status = ff_set_list(set, &names, error);
    if (status == FF_OK)
        status = ff_fail(error, FF_USAGE, "%s: %s needs one split; name one of %s", path, option,
                         names.bytes);
    ff_buffer_free(&names);
    return status;
}
