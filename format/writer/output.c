#include "format/writer/output.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/disk/layout.h"
#include "format/disk/part.h"
#include "format/reader/history.h"
#include "format/storage/storage.h"
#include "format/writer/pending.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ff_output {
    char *path;     /* OUT, without a final slash */
    char *parent;   /* its folder */
    char *partial;  /* OUT.partial */
    char *replaced; /* OUT.replaced: the old set, to be removed after --force */
    char *old;      /* OUT.replaced.old: the same, if folders cannot be exchanged */
    char *split;    /* the last split folder returned */
    int lock;       /* OUT.partial's descriptor, holding the lock; -1 = none */
    bool force, continues, unlocked;
    uint64_t bytes; /* in OUT.partial when it was opened */
};

static bool exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

/* ---- which files are ours ------------------------------------------------------------------- */

/* Calls visit for every item of a folder, with its stat; stops on failure. */
typedef ff_status (*visitor)(int folder, const char *path, const char *name,
                             const struct stat *info, void *context, ff_error *error);

static ff_status for_each(const char *path, visitor visit, void *context, ff_error *error) {
    DIR *folder = opendir(path);
    if (!folder) return ff_fail_errno(error, "%s: cannot open the folder", path);
    ff_status status = FF_OK;
    for (struct dirent *item; status == FF_OK && (item = readdir(folder));) {
        struct stat info;
        if (!strcmp(item->d_name, ".") || !strcmp(item->d_name, "..")) continue;
        if (fstatat(dirfd(folder), item->d_name, &info, AT_SYMLINK_NOFOLLOW)) continue;
        status = visit(dirfd(folder), path, item->d_name, &info, context, error);
    }
    closedir(folder);
    return status;
}

/* index.ffx, part.ffp, history.jsonl, shard-NNNNNN.ffs, source-state, the files that exist only
 * during packing, and their .tmp. */
static bool is_our_file(const char *name) {
    char stem[64];
    uint32_t number;
    if (ff_path_stem(stem, sizeof stem, name, FF_TMP_SUFFIX)) name = stem;
    char shard[64];
    if (ff_path_stem(shard, sizeof shard, name, FF_SENT_SUFFIX)) name = shard;
    return !strcmp(name, FF_INDEX_NAME) || !strcmp(name, FF_PART_NAME) ||
           !strcmp(name, FF_SUMS_NAME) || !strcmp(name, FF_HISTORY_NAME) ||
           !strcmp(name, FF_MEASURED_NAME) || !strcmp(name, FF_SOURCE_STATE_NAME) ||
           ff_shard_name_parse(name, &number) || ff_pending_name_parse(name, &number);
}

typedef struct survey {
    bool nested;       /* inside a split folder */
    bool whole_shards; /* pending ones among them */
    bool measured;
    uint64_t bytes;
} survey;

static ff_status survey_item(int folder, const char *path, const char *name,
                             const struct stat *info, void *context, ff_error *error) {
    survey *found = context;
    bool is_folder = S_ISDIR(info->st_mode);
    uint32_t number;
    (void)folder;
    if (is_folder && !found->nested) {
        char *inner;
        survey below = {.nested = true};
        FF_TRY(ff_format(&inner, error, "%s/%s", path, name));
        ff_status status = for_each(inner, survey_item, &below, error);
        free(inner);
        found->whole_shards |= below.whole_shards;
        found->bytes += below.bytes;
        return status;
    }
    if (is_folder || !is_our_file(name))
        return ff_fail(error, FF_USAGE, "%s/%s: ffpack did not write this; move it away", path,
                       name);
    found->whole_shards |=
        ff_shard_name_parse(name, &number) || ff_pending_name_parse(name, &number);
    found->measured |= !strcmp(name, FF_MEASURED_NAME);
    found->bytes += (uint64_t)info->st_size;
    return FF_OK;
}

/* Removes the items that survey_item accepts, the index first: without its index a folder is not a
 * dataset. */
static ff_status remove_item(int folder, const char *path, const char *name,
                             const struct stat *info, void *context, ff_error *error) {
    (void)context;
    if (S_ISDIR(info->st_mode)) {
        char *inner, *index;
        FF_TRY(ff_format(&inner, error, "%s/%s", path, name));
        ff_status status = ff_format(&index, error, "%s/%s", inner, FF_INDEX_NAME);
        if (status == FF_OK) unlink(index);
        if (status == FF_OK) status = for_each(inner, remove_item, NULL, error);
        if (status == FF_OK && rmdir(inner))
            status = ff_fail_errno(error, "%s: cannot remove", inner);
        free(index);
        free(inner);
        return status;
    }
    if (!is_our_file(name)) return FF_OK;
    if (unlinkat(folder, name, 0) && errno != ENOENT)
        return ff_fail_errno(error, "%s/%s: cannot remove", path, name);
    return FF_OK;
}

static ff_status remove_set(const char *path, ff_error *error) {
    survey found = {0};
    FF_TRY(for_each(path, survey_item, &found, error));
    FF_TRY(for_each(path, remove_item, NULL, error));
    if (rmdir(path)) return ff_fail_errno(error, "%s: cannot remove", path);
    return FF_OK;
}

/* ---- opening -------------------------------------------------------------------------------- */

ff_status ff_output_resolve(char **resolved, const char *path, ff_error *error) {
    char *link;
    struct stat info;
    *resolved = NULL;
    FF_TRY(ff_copy_bytes(&link, path, ff_path_length(path), error));
    if (lstat(link, &info) == 0 && S_ISLNK(info.st_mode)) *resolved = realpath(link, NULL);
    free(link);
    return FF_OK;
}

static ff_status set_paths(ff_output *output, const char *path, ff_error *error) {
    FF_TRY(ff_storage_refuse(path, "this command makes", error));
    FF_TRY(ff_copy_bytes(&output->path, path, ff_path_length(path), error));
    const char *slash = strrchr(output->path, '/');
    const char *last = slash ? slash + 1 : output->path;
    if (!*last || !strcmp(last, ".") || !strcmp(last, ".."))
        return ff_fail(error, FF_USAGE, "-o %s: wanted the name of a new folder", path);
    size_t parent = slash ? (size_t)(slash - output->path) : 0;
    if (!slash)
        FF_TRY(ff_copy_string(&output->parent, ".", error));
    else
        FF_TRY(ff_copy_bytes(&output->parent, parent ? output->path : "/", parent ? parent : 1,
                             error));
    FF_TRY(ff_format(&output->replaced, error, "%s.replaced", output->path));
    FF_TRY(ff_format(&output->old, error, "%s.old", output->replaced));
    return ff_format(&output->partial, error, "%s.partial", output->path);
}

/* Creates OUT.partial if missing, and locks it. The lock is the kernel's, on the folder itself: it
 * ends with the process, however the process ends, and leaves no file. */
static ff_status lock_partial(ff_output *output, ff_error *error) {
    if (mkdir(output->partial, 0777) && errno != EEXIST)
        return ff_fail_errno(error, "%s: cannot create the folder", output->partial);
    /* Also if the folder existed: the process that created it may have been killed before this
     * sync. */
    FF_TRY(ff_sync_directory(output->parent, error));
    output->lock = open(output->partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (output->lock < 0)
        return ff_fail_errno(error, "%s: cannot open the folder", output->partial);
    struct stat held, named = {0};
    ff_status status = ff_lock_folder(output->lock, output->partial, &output->unlocked, error);
    if (status != FF_OK)
        ;
    else if (fstat(output->lock, &held) || (stat(output->partial, &named) && errno != ENOENT))
        status = ff_fail_errno(error, "%s: cannot stat", output->partial);
    /* Between open and lock the previous writer may have renamed the folder into place. */
    else if (!named.st_nlink || held.st_ino != named.st_ino || held.st_dev != named.st_dev)
        status =
            ff_fail(error, FF_USAGE, "%s: another ffpack has just finished there", output->partial);
    if (status != FF_OK) {
        /* Another run's folder: closing this output must not remove it. */
        close(output->lock);
        output->lock = -1;
    }
    return status;
}

/* OUT.replaced was left by a run with --force that was killed while it put its set into place: it
 * is the old set, or a new one that was not yet exchanged. Neither is needed. A run that is still
 * busy holds a lock on the new set's folder, whatever its name is. */
static ff_status remove_replaced(const ff_output *output, ff_error *error) {
    int folder = open(output->replaced, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 && errno == ENOENT) return FF_OK;
    if (folder < 0) return ff_fail_errno(error, "%s: cannot open the folder", output->replaced);
    bool unlocked;
    ff_status status = ff_lock_folder(folder, output->replaced, &unlocked, error);
    if (status == FF_OK) status = remove_set(output->replaced, error);
    close(folder);
    return status;
}

/* OUT.replaced.old was left by a run that was killed while it put its set into place without an
 * exchange: it is the old set. If the new set is not in place, the old one is restored. */
static ff_status settle_old(const ff_output *output, ff_error *error) {
    if (!exists(output->old)) return FF_OK;
    if (exists(output->path)) return remove_set(output->old, error);
    if (rename(output->old, output->path))
        return ff_fail_errno(error, "%s: cannot rename to %s", output->old, output->path);
    return ff_sync_directory(output->parent, error);
}

static ff_status open_output(ff_output *output, const char *path, ff_output_mode mode,
                             ff_error *error) {
    char *real = NULL;
    if (output->force) FF_TRY(ff_output_resolve(&real, path, error));
    ff_status named = set_paths(output, real ? real : path, error);
    free(real);
    FF_TRY(named);
    struct stat info;
    if (stat(output->parent, &info))
        return ff_fail_errno(error, "%s: cannot write there", output->parent);
    FF_TRY(settle_old(output, error));
    if (!output->force && exists(output->path))
        return ff_fail(error, FF_USAGE, "%s: exists already; --force replaces it", output->path);
    if (mode == FF_OUTPUT_CONTINUE && !exists(output->partial))
        return ff_fail(error, FF_USAGE, "%s: does not exist, so there is nothing to --resume",
                       output->partial);
    if (exists(output->path)) {
        /* --force must never remove a folder that is not a packed set. */
        survey found = {0};
        FF_TRY(for_each(output->path, survey_item, &found, error));
    }
    FF_TRY(lock_partial(output, error));
    FF_TRY(remove_replaced(output, error));
    survey found = {0};
    FF_TRY(for_each(output->partial, survey_item, &found, error));
    output->continues = found.whole_shards;
    output->bytes = found.bytes;
    return FF_OK;
}

ff_status ff_output_open(ff_output **out, const char *path, ff_output_mode mode, bool force,
                         ff_error *error) {
    ff_output *output;
    *out = NULL;
    FF_TRY(ff_alloc(&output, 1, sizeof *output, "an output", error));
    output->lock = -1;
    output->force = force;
    ff_status status = open_output(output, path, mode, error);
    if (status != FF_OK) ff_output_close(&output);
    *out = output;
    return status;
}

ff_status ff_output_split(ff_output *output, const char *split, const char **directory,
                          ff_error *error) {
    free(output->split);
    output->split = NULL;
    if (!*split) {
        *directory = output->partial;
        return FF_OK;
    }
    FF_TRY(ff_format(&output->split, error, "%s/%s", output->partial, split));
    if (mkdir(output->split, 0777) && errno != EEXIST)
        return ff_fail_errno(error, "%s: cannot create the folder", output->split);
    FF_TRY(ff_sync_directory(output->partial, error));
    *directory = output->split;
    return FF_OK;
}

bool ff_output_continues(const ff_output *output) {
    return output->continues;
}

bool ff_output_unlocked(const ff_output *output) {
    return output->unlocked;
}

uint64_t ff_output_bytes(const ff_output *output) {
    return output->bytes;
}

/* ---- committing ----------------------------------------------------------------------------- */

/* Durably removes the files that only an unfinished set has, before the set gets its name. */
static ff_status remove_measured(const ff_output *output, ff_error *error) {
    static const char *const names[] = {FF_MEASURED_NAME, FF_MEASURED_NAME FF_TMP_SUFFIX};
    bool removed = false;
    for (int i = 0; i < 2; i++) {
        if (unlinkat(output->lock, names[i], 0) == 0)
            removed = true;
        else if (errno != ENOENT)
            return ff_fail_errno(error, "%s/%s: cannot remove", output->partial, names[i]);
    }
    return removed ? ff_sync_directory(output->partial, error) : FF_OK;
}

/* Committing each split's index synced the split's folder; ff_output_split synced the folders' own
 * entries. So the whole set is on the disk before its name appears. */
ff_status ff_output_commit(ff_output *output, ff_error *error) {
    FF_TRY(remove_measured(output, error));
    if (!output->force || !exists(output->path)) {
        if (renameat2(AT_FDCWD, output->partial, AT_FDCWD, output->path, RENAME_NOREPLACE)) {
            /* For file systems without the flag: OUT was absent a moment ago, and rename(2)
             * replaces only an empty folder. */
            if (errno != EINVAL && errno != ENOSYS)
                return ff_fail_errno(error, "%s: cannot rename to %s", output->partial,
                                     output->path);
            if (rename(output->partial, output->path))
                return ff_fail_errno(error, "%s: cannot rename to %s", output->partial,
                                     output->path);
        }
        FF_TRY(ff_sync_directory(output->parent, error));
    } else {
        /* First rename OUT.partial: if the run is killed, OUT.partial is then something to
         * continue, never the old set. */
        if (rename(output->partial, output->replaced))
            return ff_fail_errno(error, "%s: cannot rename to %s", output->partial,
                                 output->replaced);
        const char *old = output->replaced;
        if (renameat2(AT_FDCWD, output->replaced, AT_FDCWD, output->path, RENAME_EXCHANGE)) {
            /* For file systems without the flag (NFS): two steps, between which OUT does not
             * exist. */
            bool lacking = errno == EINVAL || errno == ENOSYS;
            if (!lacking || rename(output->path, output->old) ||
                rename(output->replaced, output->path)) {
                ff_status status = ff_fail_errno(error, "%s: cannot exchange with %s",
                                                 output->partial, output->path);
                if (lacking && !exists(output->path)) (void)!rename(output->old, output->path);
                (void)!rename(output->replaced, output->partial);
                return status;
            }
            old = output->old;
        }
        FF_TRY(ff_sync_directory(output->parent, error));
        FF_TRY(remove_set(old, error));
    }
    close(output->lock);
    output->lock = -1;
    return FF_OK;
}

ff_status ff_output_remove(ff_output *output, ff_error *error) {
    return remove_set(output->partial, error);
}

void ff_output_close(ff_output **out) {
    ff_output *output = *out;
    if (!output) return;
    if (output->lock >= 0) {
        /* OUT.partial holds nothing worth continuing: remove it. */
        survey found = {0};
        if (for_each(output->partial, survey_item, &found, NULL) == FF_OK && !found.whole_shards &&
            !found.measured)
            (void)!remove_set(output->partial, NULL);
        close(output->lock);
    }
    free(output->path);
    free(output->parent);
    free(output->partial);
    free(output->replaced);
    free(output->old);
    free(output->split);
    free(output);
    *out = NULL;
}
