#include "train/checkpoint/keeper.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/thread.h"
#include "train/checkpoint/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ff_keeper {
    ff_capture *capture;
    char *directory;
    int keep;
    ff_threads *writer; /* NULL = none writes */
    uint64_t step;      /* being written, or the last one that was */
    bool best;          /* it is the best so far */
    uint64_t best_step;
    bool has_best;
    ff_status status; /* of the last one written */
    ff_error error;   /* its error */
    ff_error untold;  /* the last error that ff_keeper_note has not returned */
    char *last;
};

/* ---- the thread that writes ---- */

/* Points a link in the folder to another folder there, at once. */
static ff_status set_link(const char *directory, const char *name, const char *target,
                          ff_error *error) {
    char *link = NULL, *fresh = NULL;
    ff_status status;
    FF_TRY_DONE(ff_path_join(&link, directory, name, error));
    FF_TRY_DONE(ff_format(&fresh, error, "%s" FF_TMP_SUFFIX, link));
    unlink(fresh);
    if (symlink(target, fresh) != 0 || rename(fresh, link) != 0)
        status = ff_fail_errno(error, "%s: cannot be set to %s", link, target);
done:
    free(fresh);
    free(link);
    return status;
}

/* Removes all but the newest `keep` and the best. */
static ff_status remove_old(const ff_keeper *keeper, ff_error *error) {
    uint64_t *steps;
    size_t count;
    ff_status status = ff_checkpoint_steps(keeper->directory, &steps, &count, error);
    for (size_t i = (size_t)keeper->keep; status == FF_OK && i < count; i++) {
        char *path;
        if (keeper->has_best && steps[i] == keeper->best_step) continue;
        status = ff_format(&path, error, "%s/" FF_RUN_STEP_PREFIX "%" PRIu64, keeper->directory,
                           steps[i]);
        if (status != FF_OK) break;
        ff_checkpoint_remove(path);
        free(path);
    }
    free(steps);
    return status;
}

static ff_status write_one(ff_keeper *keeper, ff_error *error) {
    char name[40];
    snprintf(name, sizeof name, FF_RUN_STEP_PREFIX "%" PRIu64, keeper->step);
    FF_TRY(ff_capture_write(keeper->capture, keeper->directory, name, error));
    FF_TRY(set_link(keeper->directory, FF_RUN_LAST, name, error));
    if (keeper->best) {
        FF_TRY(set_link(keeper->directory, FF_RUN_BEST, name, error));
        keeper->best_step = keeper->step;
        keeper->has_best = true;
    }
    FF_TRY(remove_old(keeper, error));
    free(keeper->last);
    return ff_path_join(&keeper->last, keeper->directory, name, error);
}

static void writer(void *context, int index) {
    ff_keeper *keeper = context;
    (void)index;
    keeper->status = write_one(keeper, &keeper->error);
}

static void await(ff_keeper *keeper) {
    if (!keeper->writer) return;
    ff_threads_join(&keeper->writer);
    if (keeper->status != FF_OK) keeper->untold = keeper->error;
}

/* ---- the model's thread ---- */

/* Removes what a killed process was writing or removing. */
static ff_status clean(const char *directory, ff_error *error) {
    ff_status status = FF_OK;
    DIR *entries = opendir(directory);
    if (!entries)
        return errno == ENOENT ? FF_OK : ff_fail_errno(error, "%s: cannot read", directory);
    for (const struct dirent *entry; status == FF_OK && (entry = readdir(entries));) {
        char stem[40], *path;
        if (!ff_path_stem(stem, sizeof stem, entry->d_name, FF_CHECKPOINT_PARTIAL) &&
            !ff_path_stem(stem, sizeof stem, entry->d_name, FF_CHECKPOINT_REMOVED))
            continue;
        status = ff_path_join(&path, directory, entry->d_name, error);
        if (status == FF_OK) ff_checkpoint_discard(path);
        if (status == FF_OK) free(path);
    }
    closedir(entries);
    return status;
}

/* The best of the checkpoints that are there already. */
static void find_best(ff_keeper *keeper) {
    char *link, target[64];
    const size_t prefix = strlen(FF_RUN_STEP_PREFIX);
    if (ff_path_join(&link, keeper->directory, FF_RUN_BEST, NULL) != FF_OK) return;
    const ssize_t length = readlink(link, target, sizeof target - 1);
    free(link);
    if (length <= (ssize_t)prefix) return;
    target[length] = 0;
    keeper->has_best = true;
    keeper->best_step = strtoull(target + prefix, NULL, 10);
}

ff_status ff_keeper_create(ff_keeper **out, ff_capture *capture, const ff_keeper_options *options,
                           ff_error *error) {
    ff_keeper *keeper;
    *out = NULL;
    ff_status status = ff_alloc(&keeper, 1, sizeof *keeper, "checkpoints", error);
    if (status != FF_OK) {
        ff_capture_destroy(&capture);
        return status;
    }
    keeper->capture = capture;
    keeper->keep = options->keep;
    FF_TRY_DONE(ff_copy_string(&keeper->directory, options->directory, error));
    FF_TRY_DONE(clean(keeper->directory, error));
    find_best(keeper);
    *out = keeper;
    return FF_OK;
done:
    ff_keeper_destroy(&keeper);
    return status;
}

void ff_keeper_destroy(ff_keeper **pointer) {
    ff_keeper *keeper = *pointer;
    if (!keeper) return;
    await(keeper);
    ff_capture_destroy(&keeper->capture);
    free(keeper->directory);
    free(keeper->last);
    free(keeper);
    *pointer = NULL;
}

ff_status ff_keeper_save(ff_keeper *keeper, const ff_run_state *state, bool best, ff_error *error) {
    await(keeper);
    ff_status status = ff_capture_take(keeper->capture, state, error);
    if (status == FF_OK) {
        keeper->step = state->totals.steps;
        keeper->best = best;
        status = ff_threads_start(&keeper->writer, 1, "checkpoint", writer, keeper, error);
    }
    return status;
}

ff_status ff_keeper_finish(ff_keeper *keeper, ff_error *error) {
    await(keeper);
    if (keeper->status == FF_OK) return FF_OK;
    return ff_fail(error, keeper->status, "%s", keeper->error.message);
}

const char *ff_keeper_note(ff_keeper *keeper) {
    if (keeper->untold.status == FF_OK) return NULL;
    keeper->untold.status = FF_OK;
    return keeper->untold.message;
}

const char *ff_keeper_last(const ff_keeper *keeper) {
    return keeper->writer ? NULL : keeper->last;
}

/* ---- finding one ---- */

ff_status ff_keeper_newest(ff_checkpoint **checkpoint, const char *directory, uint64_t last,
                           char **note, ff_error *error) {
    ff_error first = {0};
    uint64_t *steps;
    size_t count;
    ff_status status;
    *checkpoint = NULL;
    *note = NULL;
    FF_TRY(ff_checkpoint_steps(directory, &steps, &count, error));
    status = FF_OK;
    for (size_t i = 0; i < count; i++) {
        char *path;
        if (steps[i] > last) continue;
        FF_TRY_DONE(
            ff_format(&path, error, "%s/" FF_RUN_STEP_PREFIX "%" PRIu64, directory, steps[i]));
        ff_error why = {0};
        status = ff_checkpoint_open(checkpoint, path, &why);
        free(path);
        if (status == FF_OK) break;
        if (!first.status) first = why;
        if (error) *error = status == FF_NO_MEMORY ? why : first;
        if (status == FF_NO_MEMORY) goto done;
    }
    if (!*checkpoint) status = first.status;
    if (*checkpoint && first.status)
        status = ff_format(note, error, "%s; going on from %s", first.message,
                           ff_checkpoint_path(*checkpoint));
done:
    if (status != FF_OK) ff_checkpoint_close(checkpoint);
    free(steps);
    return status;
}
