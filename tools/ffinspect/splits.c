#include "tools/ffinspect/splits.h"

#include "format/base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef enum folder_kind { FOLDER_OTHER, FOLDER_SHARDS_ONLY, FOLDER_SPLIT } folder_kind;

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && !strcmp(text + length - end_length, end);
}

/* A folder with shards but no index is a broken split: to be named, not to be passed over. */
static ff_status look(const char *path, folder_kind *kind, ff_error *error) {
    *kind = FOLDER_OTHER;
    DIR *folder = opendir(path);
    if (!folder) return ff_fail_errno(error, "%s: cannot open the folder", path);
    for (struct dirent *item; (item = readdir(folder)) && *kind != FOLDER_SPLIT;) {
        if (!strcmp(item->d_name, "index.ffx"))
            *kind = FOLDER_SPLIT;
        else if (!strcmp(item->d_name, "part.ffp") ||
                 (!strncmp(item->d_name, "shard-", 6) && ends_with(item->d_name, ".ffs")))
            *kind = FOLDER_SHARDS_ONLY;
    }
    closedir(folder);
    return FF_OK;
}

static ff_status add(ff_split_list *list, const char *path, const char *name, ff_error *error) {
    FF_TRY(ff_reserve(&list->split, &list->capacity, list->count + 1, sizeof *list->split,
                      "the list of splits", error));
    ff_split_folder *split = &list->split[list->count];
    FF_TRY(*name ? ff_format(&split->path, error, "%s/%s", path, name)
                 : ff_copy_string(&split->path, path, error));
    list->count++; /* counted from here on, so that the list frees it */
    return ff_copy_string(&split->name, name, error);
}

static int rank_of(const char *name) {
    static const char *const first[] = {"train", "val", "valid", "test"};
    int rank = 0;
    while (rank < 4 && strcmp(name, first[rank])) rank++;
    return rank;
}

static int compare(const void *a, const void *b) {
    const ff_split_folder *left = a, *right = b;
    int order = rank_of(left->name) - rank_of(right->name);
    return order ? order : strcmp(left->name, right->name);
}

static ff_status find_inside(ff_split_list *list, const char *path, ff_error *error) {
    DIR *folder = opendir(path);
    if (!folder) return ff_fail_errno(error, "%s: cannot open the folder", path);
    ff_status status = FF_OK;
    for (struct dirent *item; status == FF_OK && (item = readdir(folder));) {
        if (item->d_name[0] == '.') continue;
        char *inner;
        folder_kind kind = FOLDER_OTHER;
        struct stat info;
        status = ff_format(&inner, error, "%s/%s", path, item->d_name);
        if (status != FF_OK) break;
        if (!stat(inner, &info) && S_ISDIR(info.st_mode)) status = look(inner, &kind, error);
        free(inner);
        if (status == FF_OK && kind != FOLDER_OTHER) status = add(list, path, item->d_name, error);
    }
    closedir(folder);
    if (list->count) qsort(list->split, list->count, sizeof *list->split, compare);
    return status;
}

/* Why the folder is none, and what to do about it. */
static ff_status no_set(const char *path, ff_error *error) {
    struct stat info;
    char *partial;
    FF_TRY(ff_format(&partial, error, "%s.partial", path));
    bool unfinished = ends_with(path, ".partial") || !stat(partial, &info);
    free(partial);
    return ff_fail(error, FF_BAD_DATA,
                   "%s: is no packed set: neither it nor a folder in it holds index.ffx%s", path,
                   unfinished ? "; its packing was not finished: the same ffpack command continues"
                              : "");
}

static ff_status missing(const char *path, ff_error *error) {
    int reason = errno;
    struct stat info;
    char *partial;
    FF_TRY(ff_format(&partial, error, "%s.partial", path));
    bool unfinished = reason == ENOENT && !stat(partial, &info);
    free(partial);
    if (unfinished)
        return ff_fail(error, FF_IO,
                       "%s: no such folder, but %s.partial is there: its packing was not finished; "
                       "the same ffpack command continues",
                       path, path);
    if (reason == ENOENT) return ff_fail(error, FF_IO, "%s: no such folder", path);
    errno = reason;
    return ff_fail_errno(error, "%s: cannot look at it", path);
}

static ff_status find(ff_split_list *list, const char *path, ff_error *error) {
    struct stat info;
    folder_kind kind;
    if (stat(path, &info)) return missing(path, error);
    if (!S_ISDIR(info.st_mode))
        return ff_fail(error, FF_BAD_DATA, "%s: is not a folder; %s", path,
                       ends_with(path, ".ffx") || ends_with(path, ".ffs")
                           ? "give the folder that it lies in"
                           : "a packed set is a folder that ffpack wrote");
    FF_TRY(look(path, &kind, error));
    if (kind != FOLDER_OTHER) return add(list, path, "", error);
    FF_TRY(find_inside(list, path, error));
    return list->count ? FF_OK : no_set(path, error);
}

ff_status ff_inspect_find_splits(ff_split_list *list, const char *path, ff_error *error) {
    *list = (ff_split_list){0};
    char *plain;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    FF_TRY(ff_copy_bytes(&plain, path, length, error));
    ff_status status = find(list, plain, error);
    free(plain);
    return status;
}

void ff_inspect_free_splits(ff_split_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->split[i].path);
        free(list->split[i].name);
    }
    free(list->split);
    *list = (ff_split_list){0};
}

ff_status ff_inspect_one_split(const ff_split_list *list, const char *path, const char *option,
                               ff_error *error) {
    if (list->count == 1) return FF_OK;
    ff_buffer names = {0};
    ff_status status = FF_OK;
    for (size_t i = 0; i < list->count && status == FF_OK; i++)
        status = ff_buffer_printf(&names, error, "%s%s", i ? ", " : "", list->split[i].path);
    if (status == FF_OK)
        status = ff_fail(error, FF_USAGE, "%s: %s needs one split; name one of %s", path, option,
                         names.bytes);
    ff_buffer_free(&names);
    return status;
}
