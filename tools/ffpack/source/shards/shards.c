#include "tools/ffpack/source/shards/shards.h"

#include "format/base/path.h"
#include "tools/ffpack/source/shards/braces.h"
#include "tools/ffpack/source/shards/sequence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static ff_status add(ff_shards *shards, const char *path, const char *split, ff_error *error) {
    FF_TRY(ff_names_add(&shards->path, path, strlen(path), error));
    return ff_names_add(&shards->split, split, strlen(split), error);
}

/* ---- splits by names ------------------------------------------------------------------------ */

enum { NO_SPLIT = -1, SEVERAL_SPLITS = -2 };

/* The split in a shard's name: the words of splits among its runs of letters. */
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
static ff_status split_by_names(ff_shards *shards, const char *source, ff_error *error) {
    const char *first = ff_names_at(&shards->path, 0), *other = NULL, *unclear = NULL;
    for (size_t i = 0; i < shards->path.count; i++) {
        const char *path = ff_names_at(&shards->path, i);
        if (split_of_name(path) != split_of_name(first)) other = other ? other : path;
        if (split_of_name(path) < 0) unclear = unclear ? unclear : path;
    }
    if (!other) return FF_OK;
    if (unclear) {
        char one[32], two[32];
        if (unclear != first) other = first;
        return ff_fail(error, FF_USAGE,
                       "%s: the name of %s has %s, and the name of %s has %s; wanted a split in "
                       "all names, or --splits none for one set of all %s",
                       source, ff_path_base(other), said(split_of_name(other), one),
                       ff_path_base(unclear), said(split_of_name(unclear), two),
                       shards->kind->many);
    }
    ff_names_free(&shards->split);
    for (size_t i = 0; i < shards->path.count; i++) {
        const char *split = ff_split_names[split_of_name(ff_names_at(&shards->path, i))];
        FF_TRY(ff_names_add(&shards->split, split, strlen(split), error));
    }
    return FF_OK;
}

/* ---- folders -------------------------------------------------------------------------------- */

typedef struct shard_folders {
    ff_names with, without; /* names of folders with shards, and without */
} shard_folders;

static ff_status leave(ff_left_out *left, const char *one, const char *many, const char *path,
                       ff_error *error) {
    return left ? ff_left_out_add(left, one, many, "", path, strlen(path), error) : FF_OK;
}

static ff_status leave_without(const ff_shards *shards, ff_left_out *left, const char *path,
                               ff_error *error) {
    char one[64], many[64];
    snprintf(one, sizeof one, "folder without %s", shards->kind->many);
    snprintf(many, sizeof many, "folders without %s", shards->kind->many);
    return leave(left, one, many, path, error);
}

/* Adds the shards of a folder, and the names of its folders to `folders`. The rest is left out. */
static ff_status add_folder(ff_shards *shards, const char *folder, const char *split,
                            ff_names *folders, ff_left_out *left, ff_error *error) {
    ff_names names;
    FF_TRY(ff_source_read_folder(&names, folder, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        char *path;
        bool is_folder;
        const char *name = ff_names_at(&names, i);
        /* Only shards count: a folder of images is looked through for every kind of shards. */
        if (!left && !folders && !shards->kind->is_name(name)) continue;
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
        else if (shards->kind->is_name(name))
            status = add(shards, path, split, error);
        else if (left && !shards->kind->lists)
            status = ff_left_out_file(left, path, error);
        free(path);
    }
    ff_names_free(&names);
    return status;
}

/* Adds the shards of the folders that are called as splits; finds which hold some. */
static ff_status add_split_folders(ff_shards *shards, const char *source, const ff_names *names,
                                   shard_folders *found, ff_left_out *left, ff_error *error) {
    ff_status status = FF_OK;
    for (size_t i = 0; i < names->count && status == FF_OK; i++) {
        char *path;
        const char *name = ff_names_at(names, i);
        int rank = ff_split_rank(name, strlen(name));
        ff_shards other = {.kind = shards->kind}, *to = rank < 0 ? &other : shards;
        size_t before = to->path.count;
        FF_TRY(ff_path_join(&path, source, name, error));
        status = add_folder(to, path, rank < 0 ? "" : ff_split_names[rank], NULL,
                            rank < 0 ? NULL : left, error);
        bool holds = to->path.count > before;
        if (status == FF_OK)
            status =
                ff_names_add(holds ? &found->with : &found->without, name, strlen(name), error);
        if (status == FF_OK && rank < 0 && !holds)
            status = leave_without(shards, left, path, error);
        ff_shards_free(&other);
        free(path);
    }
    return status;
}

/* Either the shards are in the folder itself, or in folders that are all called as splits, one
 * each. */
static ff_status check_folders(const ff_shards *shards, const char *source, bool shards_above,
                               const shard_folders *found, ff_error *error) {
    const char *taken[FF_SPLIT_NAMES] = {0}, *many = shards->kind->many;
    if (!found->with.count) return FF_OK;
    const char *first = ff_names_at(&found->with, 0);
    if (shards_above)
        return ff_fail(error, FF_USAGE,
                       "%s: holds %s next to the folder %s, which holds %s, too; wanted either",
                       source, many, first, many);
    for (size_t i = 0; i < found->with.count; i++) {
        const char *name = ff_names_at(&found->with, i);
        int rank = ff_split_rank(name, strlen(name));
        if (rank < 0)
            return ff_fail(error, FF_USAGE,
                           "%s: holds the folder %s of %s, which is not a split by its name, next "
                           "to %s; wanted only splits: train, val, test",
                           source, name, many,
                           i ? first : ff_names_at(&found->with, found->with.count - 1));
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
                       "%s: the folder %s holds no %s, and %s does; wanted %s in every split",
                       source, name, many, first, many);
    }
    return FF_OK;
}

/* ---- in a bucket ---------------------------------------------------------------------------- */

enum { LOOK_AT_OBJECTS = 1000 };

typedef struct looking {
    const ff_shard_kind *kind;
    int count;
    bool found;
} looking;

static ff_status look_at(void *context, const char *name, const ff_object *object,
                         ff_error *error) {
    looking *at = context;
    const char *slash = strchr(name, '/');
    (void)object;
    at->found = at->kind->is_name(name) && (!slash || !strchr(slash + 1, '/'));
    return at->found || ++at->count == LOOK_AT_OBJECTS
               ? ff_fail(error, FF_INTERRUPTED, "seen enough")
               : FF_OK;
}

ff_status ff_shards_look(ff_storage *storage, const ff_shard_kind *kind, bool *found,
                         ff_error *error) {
    looking at = {.kind = kind};
    const ff_status status = ff_storage_list(storage, "", look_at, &at, error);
    *found = at.found;
    return at.found || at.count == LOOK_AT_OBJECTS ? FF_OK : status;
}

/* ---- finding -------------------------------------------------------------------------------- */

static ff_status find_in_folder(ff_shards *shards, const char *path, ff_source *source,
                                ff_error *error) {
    ff_names names = {0};
    shard_folders found = {0};
    ff_left_out *left = source ? &source->left_out : NULL;
    ff_status status;
    FF_TRY_DONE(add_folder(shards, path, "", &names, left, error));
    bool above = shards->path.count > 0;
    FF_TRY_DONE(add_split_folders(shards, path, &names, &found, left, error));
    if (source) FF_TRY_DONE(check_folders(shards, path, above, &found, error));
    if (!shards->path.count)
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA,
                            "%s: holds no %s, nor folders of %s called train, val or test", path,
                            shards->kind->many, shards->kind->many));
    if (source && !shards->kind->lists)
        FF_TRY_DONE(ff_sequences_check(&shards->path, shards->kind, path, &source->notes, error));
    if (source && above && !source->splits) FF_TRY_DONE(split_by_names(shards, path, error));
done:
    ff_names_free(&names);
    ff_names_free(&found.with);
    ff_names_free(&found.without);
    return status;
}

static ff_status find(ff_shards *shards, const char *path, ff_source *source, ff_error *error) {
    bool folder;
    if (source && source->splits && strcmp(source->splits, "none") != 0)
        return ff_fail(error, FF_USAGE,
                       "--splits: the names of %s and their folders decide the splits; wanted "
                       "none, for one set of all %s",
                       shards->kind->many, shards->kind->many);
    if (source && source->pattern) {
        FF_TRY(ff_braces_expand(&shards->path, path, error));
        for (size_t i = 0; i < shards->path.count; i++)
            FF_TRY(ff_names_add(&shards->split, "", 0, error));
        return source->splits ? FF_OK : split_by_names(shards, path, error);
    }
    FF_TRY(ff_source_is_folder(path, &folder, error));
    return folder ? find_in_folder(shards, path, source, error) : add(shards, path, "", error);
}

ff_status ff_shards_find(ff_shards *shards, const char *path, const ff_shard_kind *kind,
                         ff_source *source, ff_error *error) {
    *shards = (ff_shards){.kind = kind};
    ff_status status = find(shards, path, source, error);
    if (status != FF_OK) ff_shards_free(shards);
    return status;
}

void ff_shards_free(ff_shards *shards) {
    ff_names_free(&shards->path);
    ff_names_free(&shards->split);
}

/* ---- listing -------------------------------------------------------------------------------- */

static ff_status list_split(const ff_shards *shards, ff_source *source, const char *name,
                            bool alone, ff_shard_lister *list, void *context, ff_error *error) {
    ff_source_split *split = NULL;
    for (size_t i = 0; i < shards->path.count; i++) {
        if (strcmp(ff_names_at(&shards->split, i), name) != 0) continue;
        if (!split) FF_TRY(ff_source_add_split(source, alone ? "" : name, &split, error));
        FF_TRY(list(context, split, ff_names_at(&shards->path, i), error));
    }
    return FF_OK;
}

ff_status ff_shards_list(const ff_shards *shards, ff_source *source, ff_shard_lister *list,
                         void *context, ff_error *error) {
    bool alone = true;
    for (size_t i = 1; i < shards->split.count; i++)
        alone = alone && !strcmp(ff_names_at(&shards->split, i), ff_names_at(&shards->split, 0));
    FF_TRY(list_split(shards, source, "", alone, list, context, error));
    for (size_t i = 0; i < FF_SPLIT_NAMES; i++)
        FF_TRY(list_split(shards, source, ff_split_names[i], alone, list, context, error));
    return FF_OK;
}
