#include "train/checkpoint/run_folder.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "train/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The lock is tried again for a while: ff_run_folder_is_locked may hold the folder for a moment. */
enum { LARGEST_NUMBER = 1000000, LOCK_TRIES = 10, LOCK_PAUSE_NS = 10000000 };

struct ff_run_folder {
    char *path, *log, *checkpoints, *chosen;
    int lock; /* the open folder, locked by the kernel until it is closed */
};

static ff_status set_paths(ff_run_folder *folder, ff_error *error) {
    FF_TRY(ff_path_join(&folder->log, folder->path, FF_RUN_LOG_FILE, error));
    return ff_path_join(&folder->checkpoints, folder->path, FF_RUN_CHECKPOINTS, error);
}

ff_status ff_run_folder_lock(ff_run_folder *folder, ff_error *error) {
    folder->lock = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->lock < 0) return ff_fail_errno(error, "%s: cannot open the folder", folder->path);
    for (int tried = 0; flock(folder->lock, LOCK_EX | LOCK_NB) != 0; tried++) {
        if (errno != EWOULDBLOCK) return ff_fail_errno(error, "%s: cannot lock", folder->path);
        if (tried == LOCK_TRIES)
            return ff_fail(error, FF_USAGE, "%s: another fftrain is training there", folder->path);
        nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
    }
    return FF_OK;
}

bool ff_run_folder_is_locked(const char *path) {
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool locked =
        folder >= 0 && flock(folder, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (folder >= 0) close(folder);
    return locked;
}

/* ---- a new folder ---- */

static ff_status make_numbered(ff_run_folder *folder, const char *name, ff_error *error) {
    if (mkdir(FF_RUN_FOLDERS, 0777) != 0 && errno != EEXIST)
        return ff_fail_errno(error,
                             FF_RUN_FOLDERS ": cannot create the folder of runs; --out DIR names "
                                            "another place, --out none keeps nothing");
    for (int n = 1; n < LARGEST_NUMBER; n++) {
        free(folder->path);
        FF_TRY(ff_format(&folder->path, error, FF_RUN_FOLDERS "/%s-%d", name, n));
        if (mkdir(folder->path, 0777) == 0) return FF_OK;
        if (errno != EEXIST)
            return ff_fail_errno(error, "%s: cannot create the folder", folder->path);
    }
    return ff_fail(error, FF_USAGE, FF_RUN_FOLDERS "/%s-*: there are too many", name);
}

/* Removes what is left of a run that was killed before it started: an empty log, an incomplete
 * recipe. */
static void clear_unstarted(const ff_run_folder *folder) {
    struct stat log;
    char *recipe = NULL;
    if (stat(folder->log, &log) == 0 && log.st_size == 0) unlink(folder->log);
    rmdir(folder->checkpoints);
    if (ff_path_join(&recipe, folder->path, FF_RUN_RECIPE_FILE FF_TMP_SUFFIX, NULL) == FF_OK)
        unlink(recipe);
    free(recipe);
}

/* FF_OK if the existing folder is empty; else the error reports what it holds. */
static ff_status check_empty(const ff_run_folder *folder, ff_error *error) {
    const char *path = folder->path;
    ff_status status = FF_OK;
    const bool run = ff_path_exists("%s/" FF_RUN_RECIPE_FILE, path);
    if (!run) clear_unstarted(folder);
    DIR *entries = opendir(path);
    if (!entries) return ff_fail_errno(error, "%s: cannot be the folder of a run", path);
    for (const struct dirent *entry; status == FF_OK && (entry = readdir(entries));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status =
                run ? ff_fail(error, FF_USAGE,
                              "--out %s: holds another run; --resume %s continues it", path, path)
                    : ff_fail(error, FF_USAGE, "--out %s: is not empty; it has '%s', for example",
                              path, entry->d_name);
    closedir(entries);
    return status;
}

static ff_status make_named(ff_run_folder *folder, const char *path, bool *existed,
                            ff_error *error) {
    FF_TRY(ff_copy_bytes(&folder->path, path, ff_path_length(path), error));
    ff_error why;
    *existed = access(folder->path, F_OK) == 0;
    if (*existed || ff_make_folders(folder->path, &why) == FF_OK) return FF_OK;
    return ff_fail(error, FF_IO, "--out %s", why.message);
}

ff_status ff_run_folder_create(ff_run_folder **out, const char *path, const char *name,
                               ff_error *error) {
    ff_run_folder *folder;
    ff_status status;
    bool existed = false;
    *out = NULL;
    FF_TRY(ff_alloc(&folder, 1, sizeof *folder, "the folder of a run", error));
    folder->lock = -1;
    FF_TRY_DONE(path ? make_named(folder, path, &existed, error)
                     : make_numbered(folder, name, error));
    FF_TRY_DONE(set_paths(folder, error));
    FF_TRY_DONE(ff_run_folder_lock(folder, error));
    if (existed) FF_TRY_DONE(check_empty(folder, error));
    if (mkdir(folder->checkpoints, 0777) != 0 && errno != EEXIST) {
        status = ff_fail_errno(error, "%s: cannot create the folder", folder->checkpoints);
        goto done;
    }
    *out = folder;
    return FF_OK;
done:
    ff_run_folder_close(&folder);
    return status;
}

/* ---- an existing folder ---- */

/* The run of a checkpoint: the path without its last two parts. */
static ff_status run_of(const char *checkpoint, char **run, ff_error *error) {
    FF_TRY(ff_copy_bytes(run, checkpoint, ff_path_length(checkpoint), error));
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(*run, '/');
        if (slash && slash > *run) *slash = 0;
    }
    return FF_OK;
}

static ff_status find_run(ff_run_folder *folder, const char *path, ff_error *error) {
    char *real = realpath(path, NULL);
    ff_status status;
    if (!real && !*path)
        return ff_fail(error, FF_USAGE,
                       "--resume= names no run; --resume alone takes the newest one in runs");
    if (!real) return ff_fail_errno(error, "--resume %s", path);
    if (ff_path_exists("%s/" FF_RUN_RECIPE_FILE, real)) {
        folder->path = real;
        return FF_OK;
    }
    folder->chosen = real;
    FF_TRY(run_of(real, &folder->path, error));
    if (ff_path_exists("%s/" FF_RUN_RECIPE_FILE, folder->path)) return FF_OK;
    status = ff_fail(error, FF_USAGE,
                     "--resume %s: there is no run, no " FF_RUN_RECIPE_FILE
                     " in it; wanted the folder of a run or a checkpoint in one",
                     path);
    return status;
}

ff_status ff_run_folder_open(ff_run_folder **out, const char *path, ff_error *error) {
    ff_run_folder *folder;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&folder, 1, sizeof *folder, "the folder of a run", error));
    folder->lock = -1;
    FF_TRY_DONE(find_run(folder, path, error));
    FF_TRY_DONE(set_paths(folder, error));
    *out = folder;
    return FF_OK;
done:
    ff_run_folder_close(&folder);
    return status;
}

void ff_run_folder_close(ff_run_folder **pointer) {
    ff_run_folder *folder = *pointer;
    if (!folder) return;
    if (folder->lock >= 0) close(folder->lock);
    free(folder->path);
    free(folder->log);
    free(folder->checkpoints);
    free(folder->chosen);
    free(folder);
    *pointer = NULL;
}

const char *ff_run_folder_path(const ff_run_folder *folder) {
    return folder->path;
}
const char *ff_run_folder_log(const ff_run_folder *folder) {
    return folder->log;
}
const char *ff_run_folder_checkpoints(const ff_run_folder *folder) {
    return folder->checkpoints;
}
const char *ff_run_folder_chosen(const ff_run_folder *folder) {
    return folder->chosen;
}

/* ---- its checkpoints ---- */

bool ff_checkpoint_step_of(const char *name, uint64_t *step) {
    const size_t prefix = strlen(FF_RUN_STEP_PREFIX);
    char *end;
    if (strncmp(name, FF_RUN_STEP_PREFIX, prefix) != 0) return false;
    if (name[prefix] < '0' || name[prefix] > '9') return false;
    errno = 0;
    *step = strtoull(name + prefix, &end, 10);
    return !*end && !errno;
}

static int largest_first(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

ff_status ff_checkpoint_steps(const char *checkpoints, uint64_t **steps, size_t *count,
                              ff_error *error) {
    ff_status status = FF_OK;
    uint64_t step;
    *steps = NULL;
    *count = 0;
    DIR *entries = opendir(checkpoints);
    if (!entries) return ff_fail_errno(error, "%s: cannot read the folder", checkpoints);
    for (const struct dirent *entry; status == FF_OK && (entry = readdir(entries));) {
        if (!ff_checkpoint_step_of(entry->d_name, &step)) continue;
        status = ff_grow(steps, *count, sizeof **steps, "checkpoints", error);
        if (status == FF_OK) (*steps)[(*count)++] = step;
    }
    closedir(entries);
    if (*count) qsort(*steps, *count, sizeof **steps, largest_first);
    return status;
}

/* ---- the newest run ---- */

/* When the file RUN/NAME was written; false if it does not exist. */
static bool written(const char *run, const char *name, struct timespec *at) {
    struct stat file;
    char *path = NULL;
    bool found = false;
    if (ff_path_join(&path, run, name, NULL) == FF_OK) found = stat(path, &file) == 0;
    free(path);
    if (found) *at = file.st_mtim;
    return found;
}

/* When the run's newest checkpoint was complete, or without one, when the run began. False: the
 * folder is not a run. */
static bool last_time(const char *run, struct timespec *at) {
    uint64_t *steps = NULL;
    size_t count = 0;
    char *folder = NULL, name[128];
    bool found = false;
    if (!written(run, FF_RUN_RECIPE_FILE, at)) return false;
    if (ff_path_join(&folder, run, FF_RUN_CHECKPOINTS, NULL) == FF_OK)
        (void)!ff_checkpoint_steps(folder, &steps, &count, NULL);
    for (size_t i = 0; i < count && !found; i++) {
        snprintf(name, sizeof name, FF_RUN_STEP_PREFIX "%" PRIu64 "/" FF_CHECKPOINT_SUMS_FILE,
                 steps[i]);
        found = written(folder, name, at);
    }
    free(folder);
    free(steps);
    return true;
}

static int compare_times(const struct timespec *a, const struct timespec *b) {
    if (a->tv_sec != b->tv_sec) return a->tv_sec < b->tv_sec ? -1 : 1;
    return a->tv_nsec < b->tv_nsec ? -1 : a->tv_nsec > b->tv_nsec;
}

ff_status ff_run_folder_newest(char **newest, ff_error *error) {
    struct timespec latest = {0}, at;
    DIR *entries = opendir(FF_RUN_FOLDERS);
    ff_status status = FF_OK;
    *newest = NULL;
    for (const struct dirent *entry; entries && status == FF_OK && (entry = readdir(entries));) {
        char *run = NULL;
        if (entry->d_name[0] == '.') continue;
        status = ff_path_join(&run, FF_RUN_FOLDERS, entry->d_name, error);
        if (status != FF_OK || !last_time(run, &at)) {
            free(run);
            continue;
        }
        /* Copies of a run have the same times: the first by name wins. */
        const int later = *newest ? compare_times(&at, &latest) : 1;
        const bool takes = later > 0 || (later == 0 && strcmp(run, *newest) < 0);
        free(takes ? *newest : run);
        if (!takes) continue;
        *newest = run;
        latest = at;
    }
    if (entries) closedir(entries);
    if (status == FF_OK && *newest) return FF_OK;
    free(*newest);
    *newest = NULL;
    if (status != FF_OK) return status;
    return ff_fail(error, FF_USAGE,
                   "--resume: there is no run in " FF_RUN_FOLDERS "/ here; wanted the folder of a "
                   "run, as in --resume " FF_RUN_FOLDERS "/resnet18-1");
}
