#include "tools/ffpack/source/webdataset/tars.h"

#include "format/base/path.h"
#include "tools/ffpack/source/braces.h"
#include "tools/ffpack/source/webdataset/sequence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *const ff_web_splits[] = {"", "train", "val", "test", NULL};

/* A tar's extensions: .tar .tgz .tbz2 .txz .tzst, .tar.gz and the like. */
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

static ff_status add(ff_web_tars *tars, const char *path, const char *split, ff_error *error) {
    FF_TRY(ff_names_add(&tars->path, path, strlen(path), error));
    return ff_names_add(&tars->split, split, strlen(split), error);
}

/* ---- splits by names ------------------------------------------------------------------------ */

enum { NO_SPLIT = -1, SEVERAL_SPLITS = -2 };

/* The split in a tar's name: the words of splits among its runs of letters. */
static int split_of_name(const char *path) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    int found = NO_SPLIT;
    for (const char *at = ff_path_base(path); *at; at += strcspn(at, letters)) {
        size_t word = strspn(at, letters);
        int rank = ff_split_rank(at, word);
        at += word;
        if (rank >= 0) found = found == NO_SPLIT || found == rank ? rank : SEVERAL_SPLITS;
    }
    return found;
}

/* "the split train", "no split", "several splits" */
static const char *said(int split, char text[32]) {
    snprintf(text, 32, "%s%s",
             split == NO_SPLIT         ? "no split"
             : split == SEVERAL_SPLITS ? "several splits"
                                       : "the split ",
             split < 0 ? "" : ff_split_names[split]);
    return text;
}

/* The names decide the splits, unless all name the same; either all names have a split, or none
 * has. */
static ff_status split_by_names(ff_web_tars *tars, const char *source, ff_error *error) {
    const char *first = ff_names_at(&tars->path, 0), *other = NULL, *unclear = NULL;
    for (size_t i = 0; i < tars->path.count; i++) {
        const char *path = ff_names_at(&tars->path, i);
        if (split_of_name(path) != split_of_name(first)) other = other ? other : path;
        if (split_of_name(path) < 0) unclear = unclear ? unclear : path;
    }
    if (!other) return FF_OK;
    if (unclear) {
        char one[32], two[32];
        if (unclear != first) other = first;
        return ff_fail(error, FF_USAGE,
                       "%s: the name of %s has %s, and the name of %s has %s; wanted a split in "
                       "all names, or --splits none for one set of all tars",
                       source, ff_path_base(other), said(split_of_name(other), one),
                       ff_path_base(unclear), said(split_of_name(unclear), two));
    }
    ff_names_free(&tars->split);
    for (size_t i = 0; i < tars->path.count; i++) {
        const char *split = ff_split_names[split_of_name(ff_names_at(&tars->path, i))];
        FF_TRY(ff_names_add(&tars->split, split, strlen(split), error));
    }
    return FF_OK;
}

/* ---- folders -------------------------------------------------------------------------------- */

typedef struct tar_folders {
    ff_names with, without; /* names of folders with tars, and without */
} tar_folders;

static ff_status leave(ff_left_out *left, const char *one, const char *many, const char *path,
                       ff_error *error) {
    return left ? ff_left_out_add(left, one, many, "", path, strlen(path), error) : FF_OK;
}

/* Adds the tars of a folder, and the names of its folders to `folders`. The rest is left out. */
static ff_status add_folder(ff_web_tars *tars, const char *folder, const char *split,
                            ff_names *folders, ff_left_out *left, ff_error *error) {
    ff_names names;
    FF_TRY(ff_source_read_folder(&names, folder, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        char *path;
        bool is_folder;
        const char *name = ff_names_at(&names, i);
        status = ff_path_join(&path, folder, name, error);
        if (status != FF_OK) break;
        is_folder = ff_source_is_folder(path, &is_folder, NULL) == FF_OK && is_folder;
        if (*name == '.')
            status = leave(left, is_folder ? "hidden folder" : "hidden file",
                           is_folder ? "hidden folders" : "hidden files", path, error);
        else if (is_folder && folders)
            status = ff_names_add(folders, name, strlen(name), error);
        else if (is_folder)
            status = leave(left, "folder in a split's folder", "folders in splits' folders", path,
                           error);
        else if (is_tar_name(name))
            status = add(tars, path, split, error);
        else if (left)
            status = ff_left_out_file(left, path, error);
        free(path);
    }
    ff_names_free(&names);
    return status;
}

/* Adds the tars of the folders that are called as splits; finds which hold some. */
static ff_status add_split_folders(ff_web_tars *tars, const char *source, const ff_names *names,
                                   tar_folders *found, ff_left_out *left, ff_error *error) {
    ff_status status = FF_OK;
    for (size_t i = 0; i < names->count && status == FF_OK; i++) {
        char *path;
        const char *name = ff_names_at(names, i);
        int rank = ff_split_rank(name, strlen(name));
        ff_web_tars other = {0}, *to = rank < 0 ? &other : tars;
        size_t before = to->path.count;
        FF_TRY(ff_path_join(&path, source, name, error));
        status = add_folder(to, path, rank < 0 ? "" : ff_split_names[rank], NULL,
                            rank < 0 ? NULL : left, error);
        bool holds = to->path.count > before;
        if (status == FF_OK)
            status =
                ff_names_add(holds ? &found->with : &found->without, name, strlen(name), error);
        if (status == FF_OK && rank < 0 && !holds)
            status = leave(left, "folder without tars", "folders without tars", path, error);
        ff_web_tars_free(&other);
        free(path);
    }
    return status;
}

/* Either the tars are in the folder itself, or in folders that are all called as splits, one
 * each. */
static ff_status check_folders(const char *source, bool tars_above, const tar_folders *found,
                               ff_error *error) {
    const char *taken[FF_SPLIT_NAMES] = {0};
    if (!found->with.count) return FF_OK;
    const char *first = ff_names_at(&found->with, 0);
    if (tars_above)
        return ff_fail(error, FF_USAGE,
                       "%s: holds tars next to the folder %s, which holds tars, too; wanted either",
                       source, first);
    for (size_t i = 0; i < found->with.count; i++) {
        const char *name = ff_names_at(&found->with, i);
        int rank = ff_split_rank(name, strlen(name));
        if (rank < 0)
            return ff_fail(
                error, FF_USAGE,
                "%s: holds the folder %s of tars, which is not a split by its name, next "
                "to %s; wanted only splits: train, val, test",
                source, name, i ? first : ff_names_at(&found->with, found->with.count - 1));
        if (taken[rank])
            return ff_fail(error, FF_USAGE,
                           "%s: the folders %s and %s would both be the split %s; wanted one",
                           source, taken[rank], name, ff_split_names[rank]);
        taken[rank] = name;
    }
    for (size_t i = 0; i < found->without.count; i++) {
        const char *name = ff_names_at(&found->without, i);
        if (ff_split_rank(name, strlen(name)) < 0) continue;
        return ff_fail(error, FF_USAGE,
                       "%s: the folder %s holds no tars, and %s does; wanted tars in every split",
                       source, name, first);
    }
    return FF_OK;
}

/* ---- in a bucket ---------------------------------------------------------------------------- */

enum { LOOK_AT_OBJECTS = 1000 };

typedef struct looking {
    int count;
    bool tar;
} looking;

static ff_status look_at(void *context, const char *name, const ff_object *object,
                         ff_error *error) {
    looking *at = context;
    const char *slash = strchr(name, '/');
    (void)object;
    at->tar = is_tar_name(name) && (!slash || !strchr(slash + 1, '/'));
    return at->tar || ++at->count == LOOK_AT_OBJECTS ? ff_fail(error, FF_INTERRUPTED, "seen enough")
                                                     : FF_OK;
}

ff_status ff_web_tars_look(ff_storage *storage, bool *found, ff_error *error) {
    looking at = {0};
    const ff_status status = ff_storage_list(storage, "", look_at, &at, error);
    *found = at.tar;
    return at.tar || at.count == LOOK_AT_OBJECTS ? FF_OK : status;
}

/* ---- finding -------------------------------------------------------------------------------- */

static ff_status find_in_folder(ff_web_tars *tars, const char *path, ff_source *source,
                                ff_error *error) {
    ff_names names = {0};
    tar_folders found = {0};
    ff_left_out *left = source ? &source->left_out : NULL;
    ff_status status;
    FF_TRY_DONE(add_folder(tars, path, "", &names, left, error));
    bool above = tars->path.count > 0;
    FF_TRY_DONE(add_split_folders(tars, path, &names, &found, left, error));
    if (source) FF_TRY_DONE(check_folders(path, above, &found, error));
    if (!tars->path.count)
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA,
                            "%s: holds no tars, nor folders of tars called train, val or test",
                            path));
    if (source) FF_TRY_DONE(ff_web_sequences_check(&tars->path, path, &source->notes, error));
    if (source && above && !source->splits) FF_TRY_DONE(split_by_names(tars, path, error));
done:
    ff_names_free(&names);
    ff_names_free(&found.with);
    ff_names_free(&found.without);
    return status;
}

static ff_status find(ff_web_tars *tars, const char *path, ff_source *source, ff_error *error) {
    bool folder;
    if (source && source->splits && strcmp(source->splits, "none") != 0)
        return ff_fail(error, FF_USAGE,
                       "--splits: the names of a WebDataset's tars and folders decide its splits; "
                       "wanted none, for one set of all tars");
    if (source && source->pattern) {
        FF_TRY(ff_braces_expand(&tars->path, path, error));
        for (size_t i = 0; i < tars->path.count; i++)
            FF_TRY(ff_names_add(&tars->split, "", 0, error));
        return source->splits ? FF_OK : split_by_names(tars, path, error);
    }
    FF_TRY(ff_source_is_folder(path, &folder, error));
    return folder ? find_in_folder(tars, path, source, error) : add(tars, path, "", error);
}

ff_status ff_web_tars_find(ff_web_tars *tars, const char *path, ff_source *source,
                           ff_error *error) {
    *tars = (ff_web_tars){0};
    ff_status status = find(tars, path, source, error);
    if (status != FF_OK) ff_web_tars_free(tars);
    return status;
}

void ff_web_tars_free(ff_web_tars *tars) {
    ff_names_free(&tars->path);
    ff_names_free(&tars->split);
}
