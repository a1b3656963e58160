#include "train/checkpoint/keeper.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/thread.h"
#include "train/checkpoint/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A checkpoint on the disk. */
typedef struct saved {
    uint64_t step;
    bool was_best;
    ff_evaluated val; /* of these weights; epoch 0: not evaluated */
} saved;

struct ff_keeper {
    ff_capture *capture;
    char *directory;
    int keep;
    ff_best_by best_by;
    uint32_t views;
    saved *saved; /* [count], in the order of their steps */
    int count;
    int best;        /* index of the best checkpoint; -1 = none */
    uint64_t *newer; /* [newer_count], until ff_keeper_begin: steps after `from`, newest first */
    size_t newer_count;
    ff_threads *writer; /* NULL = no thread is writing */
    saved next;         /* the one being written, or the last one written */
    ff_status status;   /* result of the last write */
    ff_error error;     /* error of the last write */
    ff_error untold;    /* the last error that ff_keeper_note has not returned */
    char *last;
    uint64_t began_ns;             /* when the last copy began */
    atomic_uint_fast64_t ended_ns; /* when its writing ended; 0: not yet, or never begun */
};

/* ---- the thread that writes ---- */

/* Makes a link that will replace another one. Its target need not exist yet. */
static ff_status prepare_link(const char *directory, const char *name, const char *target,
                              char **fresh, ff_error *error) {
    char there[64];
    FF_TRY(ff_format(fresh, error, "%s/%s" FF_TMP_SUFFIX, directory, name));
    const ssize_t length = readlink(*fresh, there, sizeof there);
    if (length == (ssize_t)strlen(target) && !memcmp(there, target, (size_t)length)) return FF_OK;
    unlink(*fresh);
    if (symlink(target, *fresh) == 0) return FF_OK;
    const ff_status status = ff_fail_errno(error, "%s: cannot be set to %s", *fresh, target);
    free(*fresh);
    *fresh = NULL;
    return status;
}

/* Points a link in the folder to another folder there, atomically. */
static ff_status set_link(const char *directory, const char *name, const char *target,
                          ff_error *error) {
    char *link = NULL, *fresh = NULL;
    ff_status status;
    FF_TRY_DONE(ff_path_join(&link, directory, name, error));
    FF_TRY_DONE(prepare_link(directory, name, target, &fresh, error));
    if (rename(fresh, link) != 0)
        status = ff_fail_errno(error, "%s: cannot be set to %s", link, target);
done:
    free(fresh);
    free(link);
    return status;
}

typedef struct step_name {
    char text[40];
} step_name;

static step_name name_of(uint64_t step) {
    step_name name;
    snprintf(name.text, sizeof name.text, FF_RUN_STEP_PREFIX "%" PRIu64, step);
    return name;
}

/* Appends a checkpoint; it replaces the last one if both have the same step. */
static ff_status add(ff_keeper *keeper, const saved *one, ff_error *error) {
    if (keeper->count && keeper->saved[keeper->count - 1].step == one->step) keeper->count--;
    FF_TRY(ff_grow(&keeper->saved, (size_t)keeper->count, sizeof *keeper->saved, "checkpoints",
                   error));
    keeper->saved[keeper->count++] = *one;
    return FF_OK;
}

/* Chooses the best checkpoint and those that stay, by keeping.h: (*kept)[count], freed by the
 * caller; NULL without checkpoints. */
static ff_status decide(ff_keeper *keeper, ff_kept **kept, ff_error *error) {
    *kept = NULL;
    keeper->best = -1;
    if (!keeper->count) return FF_OK;
    FF_TRY(ff_alloc(kept, (uint64_t)keeper->count, sizeof **kept, "checkpoints", error));
    for (int i = 0; i < keeper->count; i++) {
        const saved *one = &keeper->saved[i];
        (*kept)[i] =
            (ff_kept){.step = one->step,
                      .score = ff_evaluation_score(&one->val, keeper->best_by, keeper->views),
                      .was_best = one->was_best};
    }
    keeper->best = ff_keeping_decide(*kept, keeper->count, keeper->keep);
    return FF_OK;
}

/* Sets the links to the best and the newest checkpoint: `last` at the end, so that the link that
 * will become `last` stays until both are set. */
static ff_status set_links(const ff_keeper *keeper, ff_error *error) {
    if (!keeper->count) return FF_OK;
    if (keeper->best >= 0)
        FF_TRY(set_link(keeper->directory, FF_RUN_BEST,
                        name_of(keeper->saved[keeper->best].step).text, error));
    return set_link(keeper->directory, FF_RUN_LAST,
                    name_of(keeper->saved[keeper->count - 1].step).text, error);
}

/* Sets the links, and removes the checkpoints that do not stay. */
static ff_status settle(ff_keeper *keeper, ff_error *error) {
    ff_kept *kept;
    int stay = 0;
    FF_TRY(decide(keeper, &kept, error));
    ff_status status = set_links(keeper, error);
    const int best = keeper->best;
    for (int i = 0; status == FF_OK && i < keeper->count; i++) {
        char *path;
        if (kept[i].stays) {
            if (i == best) keeper->best = stay;
            keeper->saved[stay++] = keeper->saved[i];
            continue;
        }
        status = ff_path_join(&path, keeper->directory, name_of(kept[i].step).text, error);
        if (status != FF_OK) break;
        ff_checkpoint_remove(path);
        free(path);
    }
    if (status == FF_OK) keeper->count = stay;
    free(kept);
    return status;
}

/* Makes the link that will become `last` before the checkpoint. So a complete checkpoint belongs to
 * the run's line even if the process is killed before `last` points to it. If the link cannot be
 * made, neither can the checkpoint, whose error is reported. */
static ff_status write_one(ff_keeper *keeper, ff_error *error) {
    const step_name name = name_of(keeper->next.step);
    char *fresh;
    if (prepare_link(keeper->directory, FF_RUN_LAST, name.text, &fresh, NULL) == FF_OK) free(fresh);
    FF_TRY(ff_capture_write(keeper->capture, keeper->directory, name.text, error));
    FF_TRY(add(keeper, &keeper->next, error));
    FF_TRY(settle(keeper, error));
    free(keeper->last);
    return ff_path_join(&keeper->last, keeper->directory, name.text, error);
}

static void writer(void *context, int index) {
    ff_keeper *keeper = context;
    (void)index;
    keeper->status = write_one(keeper, &keeper->error);
    atomic_store(&keeper->ended_ns, ff_now_ns());
}

static void await(ff_keeper *keeper) {
    if (!keeper->writer) return;
    ff_threads_join(&keeper->writer);
    if (keeper->status != FF_OK) keeper->untold = keeper->error;
}

/* ---- the model's thread ---- */

/* Removes what a killed process left of checkpoints that it was writing or removing. */
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

/* The step of the checkpoint that a link in this folder points to; false without such a link. */
static bool linked_step(const char *directory, const char *name, uint64_t *step) {
    char *link, target[64];
    if (ff_path_join(&link, directory, name, NULL) != FF_OK) return false;
    const ssize_t length = readlink(link, target, sizeof target - 1);
    free(link);
    if (length <= 0) return false;
    target[length] = 0;
    return ff_checkpoint_step_of(target, step);
}

/* The newest step of the run's line, according to its links. */
static bool line_end(const char *directory, uint64_t *step) {
    return (linked_step(directory, FF_RUN_LAST FF_TMP_SUFFIX, step) &&
            ff_path_exists("%s/%s", directory, name_of(*step).text)) ||
           linked_step(directory, FF_RUN_LAST, step);
}

/* The evaluation of a checkpoint's weights; epoch 0 if the checkpoint cannot be read. */
static ff_evaluated evaluation_of(const char *directory, uint64_t step) {
    ff_safetensors *file = NULL;
    ff_run_state state = {0};
    char *path;
    if (ff_format(&path, NULL, "%s/%s/" FF_CHECKPOINT_STATE_FILE, directory, name_of(step).text) !=
        FF_OK)
        return (ff_evaluated){0};
    if (ff_safetensors_open(&file, path, NULL) == FF_OK) {
        const char *text = ff_safetensors_text(file, FF_CHECKPOINT_STATE);
        if (!text || ff_run_state_read(&state, text, NULL) != FF_OK) state = (ff_run_state){0};
    }
    ff_safetensors_close(&file);
    free(path);
    return ff_run_state_evaluation(&state);
}

/* Moves the newer checkpoints to a new folder branch-N, and links the newest and `best` there. The
 * link `last` has left these checkpoints before, so the next resume completes a move that was
 * interrupted. */
static ff_status move_aside(const ff_keeper *keeper, uint64_t best, char **note, ff_error *error) {
    const uint64_t *steps = keeper->newer;
    const size_t count = keeper->newer_count;
    char *branch = NULL, *from = NULL, *to = NULL;
    ff_status status = FF_OK;
    if (!count) return FF_OK;
    for (int i = 1;; i++) {
        FF_TRY(ff_format(&branch, error, "%s/" FF_RUN_BRANCH_PREFIX "%d", keeper->directory, i));
        if (mkdir(branch, 0777) == 0) break;
        if (errno != EEXIST) {
            status = ff_fail_errno(error, "%s: cannot create the folder", branch);
            goto done;
        }
        free(branch);
    }
    for (size_t i = 0; i < count; i++) {
        const step_name name = name_of(steps[i]);
        FF_TRY_DONE(ff_path_join(&from, keeper->directory, name.text, error));
        FF_TRY_DONE(ff_path_join(&to, branch, name.text, error));
        if (rename(from, to) != 0) {
            status = ff_fail_errno(error, "%s: cannot be moved to %s", from, to);
            goto done;
        }
        if (i == 0) FF_TRY_DONE(set_link(branch, FF_RUN_LAST, name.text, error));
        if (steps[i] == best) FF_TRY_DONE(set_link(branch, FF_RUN_BEST, name.text, error));
        free(from);
        free(to);
        from = to = NULL;
    }
    FF_TRY_DONE(
        ff_format(note, error,
                  "the checkpoints after step %" PRIu64 ", up to step %" PRIu64 ", are in %s now",
                  keeper->saved ? keeper->saved[keeper->count - 1].step : 0, steps[0], branch));
done:
    free(from);
    free(to);
    free(branch);
    return status;
}

/* Reads the existing checkpoints up to the one that the run resumes from, and the steps of newer
 * ones. */
static ff_status take_stock(ff_keeper *keeper, uint64_t resumed, ff_error *error) {
    uint64_t best = UINT64_MAX;
    size_t count;
    ff_kept *kept;
    FF_TRY(ff_checkpoint_steps(keeper->directory, &keeper->newer, &count, error));
    const uint64_t *steps = keeper->newer;
    size_t *newer = &keeper->newer_count;
    while (*newer < count && steps[*newer] > resumed) ++*newer;
    const bool linked = linked_step(keeper->directory, FF_RUN_BEST, &best);
    for (size_t i = count; i-- > *newer;) {
        const saved one = {.step = steps[i],
                           .was_best = linked && steps[i] == best,
                           .val = evaluation_of(keeper->directory, steps[i])};
        FF_TRY(add(keeper, &one, error));
    }
    FF_TRY(decide(keeper, &kept, error));
    free(kept);
    return FF_OK;
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
    keeper->best_by = options->best_by;
    keeper->views = options->views;
    FF_TRY_DONE(ff_copy_string(&keeper->directory, options->directory, error));
    FF_TRY_DONE(take_stock(keeper, options->from, error));
    *out = keeper;
    return FF_OK;
done:
    ff_keeper_destroy(&keeper);
    return status;
}

ff_status ff_keeper_begin(ff_keeper *keeper, char **note, ff_error *error) {
    uint64_t best = UINT64_MAX;
    char *link;
    *note = NULL;
    FF_TRY(clean(keeper->directory, error));
    const bool linked = linked_step(keeper->directory, FF_RUN_BEST, &best);
    FF_TRY(set_links(keeper, error));
    FF_TRY(move_aside(keeper, best, note, error));
    if (linked && keeper->best < 0) {
        FF_TRY(ff_path_join(&link, keeper->directory, FF_RUN_BEST, error));
        unlink(link); /* it pointed to a checkpoint that was moved or is gone */
        free(link);
    }
    free(keeper->newer);
    keeper->newer = NULL;
    keeper->newer_count = 0;
    return FF_OK;
}

ff_status ff_keeper_complete(const ff_keeper *keeper, ff_error *error) {
    uint64_t step;
    const bool interrupted = keeper->count &&
                             linked_step(keeper->directory, FF_RUN_LAST FF_TMP_SUFFIX, &step) &&
                             step == keeper->saved[keeper->count - 1].step;
    FF_TRY(clean(keeper->directory, error));
    return interrupted ? set_links(keeper, error) : FF_OK;
}

void ff_keeper_destroy(ff_keeper **pointer) {
    ff_keeper *keeper = *pointer;
    if (!keeper) return;
    await(keeper);
    ff_capture_destroy(&keeper->capture);
    free(keeper->directory);
    free(keeper->saved);
    free(keeper->newer);
    free(keeper->last);
    free(keeper);
    *pointer = NULL;
}

ff_status ff_keeper_save(ff_keeper *keeper, const ff_run_state *state, ff_error *error) {
    await(keeper);
    keeper->began_ns = ff_now_ns();
    atomic_store(&keeper->ended_ns, 0);
    ff_status status = ff_capture_take(keeper->capture, state, error);
    if (status == FF_OK) {
        keeper->next = (saved){.step = state->totals.steps, .val = ff_run_state_evaluation(state)};
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

double ff_keeper_took(const ff_keeper *keeper) {
    const uint64_t ended_ns = atomic_load(&keeper->ended_ns);
    if (!keeper->began_ns) return 0;
    return (double)((ended_ns ? ended_ns : ff_now_ns()) - keeper->began_ns) * 1e-9;
}

ff_evaluated ff_keeper_best(const ff_keeper *keeper) {
    const ff_evaluated none = {0};
    return keeper->best < 0 ? none : keeper->saved[keeper->best].val;
}

/* ---- finding a checkpoint ---- */

ff_status ff_keeper_newest(ff_checkpoint **checkpoint, const char *directory, uint64_t last,
                           char **note, ff_error *error) {
    ff_error first = {0};
    uint64_t *steps, end;
    size_t count;
    ff_status status;
    *checkpoint = NULL;
    *note = NULL;
    FF_TRY(ff_checkpoint_steps(directory, &steps, &count, error));
    if (line_end(directory, &end) && end < last) last = end;
    status = FF_OK;
    for (size_t i = 0; i < count; i++) {
        char *path;
        if (steps[i] > last) continue;
        FF_TRY_DONE(ff_path_join(&path, directory, name_of(steps[i]).text, error));
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
        status = ff_format(note, error, "%s; resuming from %s", first.message,
                           ff_checkpoint_path(*checkpoint));
done:
    if (status != FF_OK) ff_checkpoint_close(checkpoint);
    free(steps);
    return status;
}
