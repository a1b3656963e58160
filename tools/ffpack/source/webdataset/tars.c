#include "tools/ffpack/source/webdataset/tars.h"

#include "format/base/path.h"
#include "tools/ffpack/source/braces.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

const char *const ff_web_splits[] = {"", "train", "val", "test", NULL};

/* Of a tar: .tar .tgz .tbz2 .txz .tzst, .tar.gz and the like. */
static bool is_tar_name(const char *name) {
    static const char *const ends[] = {".tar",    ".tgz",     ".tbz2",   ".txz",    ".tzst",
                                       ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t end = strlen(ends[i]);
        if (length > end && !strcasecmp(name + length - end, ends[i])) return true;
    }
    return false;
}

static bool is_tar(const char *name, unsigned char type) {
    return type != DT_DIR && is_tar_name(name);
}

static bool is_split_folder(const char *name, unsigned char type) {
    return type != DT_REG && ff_split_rank(name, strlen(name)) >= 0;
}

static ff_status add(ff_web_tars *tars, const char *path, const char *split, ff_error *error) {
    FF_TRY(ff_names_add(&tars->path, path, strlen(path), error));
    return ff_names_add(&tars->split, split, strlen(split), error);
}

static ff_status add_folder(ff_web_tars *tars, const char *folder, const char *split,
                            ff_error *error) {
    ff_names names;
    FF_TRY(ff_names_read(&names, folder, is_tar, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        char *path;
        status = ff_path_join(&path, folder, ff_names_at(&names, i), error);
        if (status == FF_OK) status = add(tars, path, split, error);
        free(path);
    }
    ff_names_free(&names);
    return status;
}

static ff_status add_split_folders(ff_web_tars *tars, const char *folder, ff_error *error) {
    ff_names names;
    const char *taken[FF_SPLIT_NAMES] = {0};
    FF_TRY(ff_names_read(&names, folder, is_split_folder, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        char *path;
        struct stat info;
        const char *name = ff_names_at(&names, i);
        int rank = ff_split_rank(name, strlen(name));
        size_t before = tars->path.count;
        status = ff_path_join(&path, folder, name, error);
        if (status == FF_OK && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
            status = add_folder(tars, path, ff_split_names[rank], error);
        if (status == FF_OK && tars->path.count > before && taken[rank])
            status = ff_fail(error, FF_USAGE,
                             "%s: the folders %s and %s would both be the split %s; wanted one",
                             folder, taken[rank], name, ff_split_names[rank]);
        if (tars->path.count > before) taken[rank] = name;
        free(path);
    }
    ff_names_free(&names);
    return status;
}

/* The split's name with which a file name begins; else "". */
static const char *split_of_name(const char *path) {
    const char *name = ff_path_base(path);
    size_t letters = 0;
    while ((name[letters] >= 'a' && name[letters] <= 'z') ||
           (name[letters] >= 'A' && name[letters] <= 'Z'))
        letters++;
    int rank = ff_split_rank(name, letters);
    return rank < 0 ? "" : ff_split_names[rank];
}

/* Names define the splits if all begin with one, and not all with the same. */
static ff_status split_by_names(ff_web_tars *tars, ff_error *error) {
    bool all = true, same = true;
    const char *first = split_of_name(ff_names_at(&tars->path, 0));
    for (size_t i = 0; i < tars->path.count; i++) {
        const char *split = split_of_name(ff_names_at(&tars->path, i));
        all = all && *split;
        same = same && !strcmp(split, first);
    }
    if (!all || same) return FF_OK;
    ff_names_free(&tars->split);
    for (size_t i = 0; i < tars->path.count; i++) {
        const char *split = split_of_name(ff_names_at(&tars->path, i));
        FF_TRY(ff_names_add(&tars->split, split, strlen(split), error));
    }
    return FF_OK;
}

static ff_status find(ff_web_tars *tars, const char *source, bool pattern, ff_error *error) {
    struct stat info;
    if (pattern) {
        FF_TRY(ff_braces_expand(&tars->path, source, error));
        for (size_t i = 0; i < tars->path.count; i++)
            FF_TRY(ff_names_add(&tars->split, "", 0, error));
        return split_by_names(tars, error);
    }
    if (stat(source, &info) < 0) return ff_fail_errno(error, "%s: cannot open", source);
    if (!S_ISDIR(info.st_mode)) return add(tars, source, "", error);
    FF_TRY(add_folder(tars, source, "", error));
    if (tars->path.count) return split_by_names(tars, error);
    FF_TRY(add_split_folders(tars, source, error));
    if (tars->path.count) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: holds no tars, nor folders of tars called train, val or test", source);
}

ff_status ff_web_tars_find(ff_web_tars *tars, const char *source, bool pattern, ff_error *error) {
    *tars = (ff_web_tars){0};
    ff_status status = find(tars, source, pattern, error);
    if (status != FF_OK) ff_web_tars_free(tars);
    return status;
}

void ff_web_tars_free(ff_web_tars *tars) {
    ff_names_free(&tars->path);
    ff_names_free(&tars->split);
}
