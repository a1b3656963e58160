#include "format/disk/set.h"

#include "format/base/path.h"
#include "format/cli/interrupt.h"
#include "format/disk/layout.h"
#include "format/disk/part.h"
#include "format/storage/storage.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const names[] = {"train", "val", "valid", "test"};

/* *has = whether PATH/NAME/index.ffx exists; name "" = PATH/index.ffx. FF_IO only for a URL whose
 * server cannot be asked. */
static ff_status has_index(bool *has, const char *path, const char *name, ff_error *error) {
    const char *slash = *name ? "/" : "";
    if (!ff_storage_is_url(path)) {
        *has = ff_path_exists("%s%s%s/" FF_INDEX_NAME, path, slash, name);
        return FF_OK;
    }
    ff_storage *storage;
    char *url;
    FF_TRY(ff_format(&url, error, "%s%s%s", path, slash, name));
    ff_status status =
        ff_storage_open(&storage, url, &(ff_storage_options){.check = ff_interrupt_check}, error);
    if (status == FF_OK) status = ff_storage_look_ahead(storage, FF_INDEX_NAME, has, error);
    ff_storage_close(&storage);
    free(url);
    return status;
}

ff_status ff_folder_look(const char *path, ff_folder *kind, ff_error *error) {
    bool has;
    FF_TRY(has_index(&has, path, "", error));
    *kind = has ? FF_FOLDER_SPLIT : FF_FOLDER_OTHER;
    if (has || ff_storage_is_url(path)) return FF_OK;
    *kind = FF_FOLDER_PART;
    if (ff_path_exists("%s/" FF_PART_NAME, path)) return FF_OK;
    *kind = FF_FOLDER_OTHER;
    DIR *folder = opendir(path);
    if (!folder) return ff_fail_errno(error, "%s: cannot open the folder", path);
    uint32_t number;
    for (struct dirent *item; *kind == FF_FOLDER_OTHER && (item = readdir(folder));)
        if (ff_shard_name_parse(item->d_name, &number)) *kind = FF_FOLDER_SHARDS;
    closedir(folder);
    return FF_OK;
}

static ff_status add(ff_set *set, const char *path, const char *name, ff_folder kind,
                     ff_error *error) {
    FF_TRY(ff_reserve(&set->split, &set->capacity, set->count + 1, sizeof *set->split,
                      "the list of splits", error));
    ff_split *split = &set->split[set->count++];
    split->kind = kind;
    FF_TRY(ff_copy_string(&split->path, path, error));
    return ff_copy_string(&split->name, name, error);
}

static int compare(const void *a, const void *b) {
    const ff_split *left = a, *right = b;
    return strcmp(left->name, right->name);
}

/* Behind a URL only the usual names are looked for. */
static ff_status find_behind(ff_set *set, const char *url, ff_error *error) {
    for (unsigned rank = 0; rank < FF_SPLIT_OTHER; rank++) {
        bool has;
        char *inner;
        FF_TRY(has_index(&has, url, names[rank], error));
        if (!has) continue;
        FF_TRY(ff_path_join(&inner, url, names[rank], error));
        const ff_status status = add(set, inner, names[rank], FF_FOLDER_SPLIT, error);
        free(inner);
        FF_TRY(status);
    }
    if (!set->count)
        return ff_fail(error, FF_IO,
                       "%s: there is no " FF_INDEX_NAME
                       ", and none in train, val, valid or test below it",
                       url);
    qsort(set->split, set->count, sizeof *set->split, compare);
    return FF_OK;
}

static ff_status find_inside(ff_set *set, const char *path, ff_error *error) {
    DIR *folder = opendir(path);
    if (!folder) return ff_fail_errno(error, "%s: cannot open the folder", path);
    ff_status status = FF_OK;
    for (struct dirent *item; status == FF_OK && (item = readdir(folder));) {
        char *inner;
        ff_folder kind;
        if (item->d_name[0] == '.') continue;
        status = ff_path_join(&inner, path, item->d_name, error);
        if (status != FF_OK) break;
        if (ff_folder_look(inner, &kind, NULL) == FF_OK && kind != FF_FOLDER_OTHER)
            status = add(set, inner, item->d_name, kind, error);
        free(inner);
    }
    closedir(folder);
    if (status == FF_OK && set->count) qsort(set->split, set->count, sizeof *set->split, compare);
    return status;
}

ff_status ff_set_find(ff_set *set, const char *path, ff_error *error) {
    ff_folder kind;
    *set = (ff_set){0};
    FF_TRY(ff_folder_look(path, &kind, error));
    if (kind == FF_FOLDER_OTHER && ff_storage_is_url(path)) return find_behind(set, path, error);
    return kind == FF_FOLDER_OTHER ? find_inside(set, path, error)
                                   : add(set, path, "", kind, error);
}

void ff_set_free(ff_set *set) {
    for (size_t i = 0; i < set->count; i++) {
        free(set->split[i].path);
        free(set->split[i].name);
    }
    free(set->split);
    *set = (ff_set){0};
}

ff_status ff_set_list(const ff_set *set, ff_buffer *text, ff_error *error) {
    for (size_t i = 0; i < set->count; i++)
        FF_TRY(ff_buffer_printf(text, error, "%s%s", i ? ", " : "", set->split[i].path));
    return FF_OK;
}

ff_set_rank ff_set_rank_of(const char *name) {
    unsigned rank = 0;
    while (rank < FF_SPLIT_OTHER && strcmp(name, names[rank])) rank++;
    return (ff_set_rank)rank;
}

ff_status ff_set_choose(char **folder, const char *path, ff_set_rank from, ff_set_rank to,
                        ff_error *error) {
    bool has;
    *folder = NULL;
    FF_TRY(has_index(&has, path, "", error));
    if (has) return ff_copy_string(folder, path, error);
    for (unsigned rank = from; rank <= to; rank++) {
        FF_TRY(has_index(&has, path, names[rank], error));
        if (has) return ff_format(folder, error, "%s/%s", path, names[rank]);
    }
    return FF_OK;
}

bool ff_set_is_whole(const char *path) {
    if (ff_path_exists("%s/" FF_INDEX_NAME, path)) return true;
    DIR *folder = opendir(path);
    if (!folder) return false;
    bool all = true, any = false;
    for (struct dirent *item; all && (item = readdir(folder));) {
        if (item->d_name[0] == '.' || !ff_path_exists("%s/%s/.", path, item->d_name)) continue;
        all = ff_path_exists("%s/%s/" FF_INDEX_NAME, path, item->d_name);
        any = true;
    }
    closedir(folder);
    return any && all;
}

ff_status ff_set_refuse_part(const char *path, ff_error *error) {
    if (!ff_path_exists("%s/" FF_PART_NAME, path)) return FF_OK;
    ff_part part;
    ff_buffer text = {0};
    ff_status status = ff_part_read(&part, path, &text, error);
    ff_buffer_free(&text);
    FF_TRY(status);
    return ff_fail(error, FF_BAD_DATA,
                   "%s: is part %u/%u of a set; ffpack merge OUT PART... puts its parts together",
                   path, part.number, part.count);
}

/* Refuses a missing split folder: OUT/train of a set without splits, or OUT/val of a set with other
 * splits. The error names what exists instead. */
static ff_status refuse_missing(const char *path, ff_error *error) {
    char *copy = NULL;
    ff_set set = {0};
    ff_buffer beside = {0};
    ff_status status;
    FF_TRY_DONE(ff_copy_bytes(&copy, path, ff_path_length(path), error));
    char *slash = strrchr(copy, '/');
    const bool is_split = ff_set_rank_of(slash ? slash + 1 : copy) != FF_SPLIT_OTHER;
    if (slash) slash[slash == copy] = 0;
    const char *parent = slash ? copy : ".";
    if (is_split && ff_set_find(&set, parent, NULL) == FF_OK)
        FF_TRY_DONE(ff_set_list(&set, &beside, error));
    const char *scheme_end = strstr(path, "://");
    if (scheme_end)
        status = ff_fail(error, FF_IO,
                         "%s: no such folder; a URL of %.*s:// is not read; wanted s3://, gs://, "
                         "https:// or http://",
                         path, (int)(scheme_end - path), path);
    else if (!set.count)
        status = ff_fail(error, FF_IO, "%s: no such folder", path);
    else if (!*set.split[0].name)
        status = ff_fail(error, FF_IO, "%s: no such folder; %s is a set without splits, name that",
                         path, parent);
    else
        status = ff_fail(error, FF_IO, "%s: no such folder; next to it there %s %s", path,
                         set.count == 1 ? "is" : "are", beside.bytes);
    if (error) error->system_errno = ENOENT;
done:
    ff_buffer_free(&beside);
    ff_set_free(&set);
    free(copy);
    return status;
}

ff_status ff_set_check_folder(const char *path, ff_error *error) {
    if (ff_storage_is_url(path)) return FF_OK;
    struct stat info;
    const int length = (int)ff_path_length(path);
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) return FF_OK;
        const char *end = strrchr(path, '.');
        const bool ours = end && (!strcmp(end, ".ffx") || !strcmp(end, ".ffs"));
        return ff_fail(error, FF_BAD_DATA, "%s: is not a folder; %s", path,
                       ours ? "name the folder that contains it"
                            : "a packed set is a folder that ffpack wrote");
    }
    if (errno != ENOENT) return ff_fail_errno(error, "%s: cannot stat", path);
    if (!ff_path_exists("%.*s.partial", length, path)) return refuse_missing(path, error);
    const ff_status status =
        ff_fail(error, FF_IO,
                "%s: no such folder, but %.*s.partial is there: its packing was not finished; the "
                "same ffpack command continues",
                path, length, path);
    if (error) error->system_errno = ENOENT;
    return status;
}

ff_status ff_set_refuse(const char *path, ff_error *error) {
    ff_set set;
    ff_buffer splits = {0};
    ff_status status;
    FF_TRY(ff_set_check_folder(path, error));
    FF_TRY_DONE(ff_set_find(&set, path, error));
    for (size_t i = 0; i < set.count; i++)
        FF_TRY_DONE(ff_set_refuse_part(set.split[i].path, error));
    FF_TRY_DONE(ff_set_list(&set, &splits, error));
    status = set.count && *set.split[0].name
                 ? ff_fail(error, FF_BAD_DATA, "%s: holds %s %s", path,
                           set.count == 1 ? "one split; name" : "several splits; name one of",
                           splits.bytes)
                 : ff_fail(error, FF_BAD_DATA,
                           "%s: is not a packed dataset: it has no " FF_INDEX_NAME "%s", path,
                           set.count ? "; ffpack repair makes one from its shards"
                                     : "; ffpack SOURCE -o OUT packs images");
done:
    ff_buffer_free(&splits);
    ff_set_free(&set);
    return status;
}
