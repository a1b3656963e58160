#include "tools/ffpack/parts/part_counts.h"

#include "format/base/path.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "part-counts"
#define LOCK   "lock"

/* If a range does not grow for this time, the part that waits for it also counts it: the counting
 * machine may be gone without its lock. */
#define STALLED_NS UINT64_C(30000000000)
enum { PAUSE_MS = 200 };

typedef struct range {
    bool added;              /* to the total */
    uint64_t seen, since_ns; /* how far another part was when this one looked, and since when */
} range;

typedef struct sharing {
    const ff_measure_job *job;
    const ff_part *part;
    char *folder;
    int lock;
    range *range; /* [part->count] */
    ff_stats *total, *sums;
    uint64_t fresh;
    ff_progress waiting;
} sharing;

/* ---- claims --------------------------------------------------------------------------------- */

/* Sets the lock of a range. Also true if the file system has no locks. */
static bool set_lock(const sharing *state, uint32_t number, short kind) {
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
    return fcntl(state->lock, F_OFD_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES);
}

static bool has_stalled(range *own, uint64_t done) {
    const uint64_t now_ns = ff_now_ns();
    if (own->since_ns && own->seen == done) return now_ns - own->since_ns >= STALLED_NS;
    own->seen = done;
    own->since_ns = now_ns;
    return false;
}

/* ---- ranges --------------------------------------------------------------------------------- */

/* floor(count * number / of), without overflow. */
static uint64_t cut(uint64_t count, uint32_t number, uint32_t of) {
    return count / of * number + count % of * number / of;
}

static void stop_waiting(sharing *state) {
    ff_progress_end(&state->waiting);
    state->waiting = (ff_progress){0};
}

/* Counts the range if no other part does. */
static ff_status count_range(sharing *state, const ff_measure_range *wanted, uint32_t number,
                             ff_error *error) {
    range *own = &state->range[number - 1];
    uint64_t done;
    ff_stats_reset(state->sums);
    FF_TRY(ff_measure_kept(state->job, wanted, state->sums, &done, error));
    if (done < wanted->end) {
        const bool claimed = set_lock(state, number, F_WRLCK);
        if (!claimed && !has_stalled(own, done)) return FF_OK;
        ff_stats_reset(state->sums);
        stop_waiting(state);
        const ff_status status = ff_measure(state->job, wanted, state->sums, &state->fresh, error);
        if (claimed) (void)set_lock(state, number, F_UNLCK);
        FF_TRY(status);
    }
    ff_stats_merge(state->total, state->sums);
    own->added = true;
    return FF_OK;
}

static ff_status take_range(sharing *state, uint32_t number, ff_error *error) {
    const uint64_t count = ff_listing_count(state->job->split->listing);
    const uint32_t of = state->part->count;
    const char *split = state->job->split->name;
    char name[48], title[320];
    snprintf(name, sizeof name, "%u-of-%u.ffp", number, of);
    snprintf(title, sizeof title, "measuring%s%s, %u of %u", *split ? " " : "", split, number, of);
    const ff_measure_range wanted = {.first = cut(count, number - 1, of),
                                     .end = cut(count, number, of),
                                     .directory = state->folder,
                                     .name = name,
                                     .shared = true,
                                     .title = title};
    return count_range(state, &wanted, number, error);
}

/* Its own range first, so that parts that begin at the same time count different ranges. */
static ff_status take_all(sharing *state, ff_error *error) {
    const uint32_t count = state->part->count;
    for (;;) {
        uint32_t missing = 0;
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t index = (state->part->number - 1 + i) % count;
            if (state->range[index].added) continue;
            FF_TRY(take_range(state, index + 1, error));
            missing += !state->range[index].added;
        }
        if (!missing) return FF_OK;
        if (!state->waiting.unit)
            ff_progress_begin(&state->waiting, "waiting for the counts of other parts", "parts",
                              count, false);
        ff_progress_update(&state->waiting, count - missing, NULL);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
        FF_TRY(ff_interrupt_check(error));
    }
}

static ff_status open_folder(sharing *state, ff_error *error) {
    char *path;
    if (mkdir(state->folder, 0777) && errno != EEXIST)
        return ff_fail_errno(error, "%s: cannot create the folder", state->folder);
    FF_TRY(ff_path_join(&path, state->folder, LOCK, error));
    state->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    ff_status status = state->lock < 0 ? ff_fail_errno(error, "%s: cannot open", path) : FF_OK;
    free(path);
    return status;
}

/* The files of a replaced part may have changed since, keeping their sizes, which the basis does
 * not show. */
static void forget_own(const sharing *state) {
    char *path;
    if (ff_format(&path, NULL, "%s/%u-of-%u.ffp", state->folder, state->part->number,
                  state->part->count) != FF_OK)
        return;
    unlink(path);
    free(path);
}

ff_status ff_part_counts_take(const ff_measure_job *job, const ff_settings *settings,
                              ff_stats *total, uint64_t *fresh, ff_error *error) {
    sharing state = {.job = job, .part = &settings->part, .lock = -1, .total = total};
    ff_status status;
    FF_TRY_DONE(ff_part_counts_path(&state.folder, settings->output, &settings->part, error));
    FF_TRY_DONE(open_folder(&state, error));
    FF_TRY_DONE(ff_stats_create(&state.sums, job->plan->channels, error));
    FF_TRY_DONE(ff_alloc(&state.range, settings->part.count, sizeof *state.range, "ranges", error));
    if (settings->force && ff_path_exists("%s", settings->output)) forget_own(&state);
    status = take_all(&state, error);
done:
    stop_waiting(&state);
    *fresh += state.fresh;
    if (state.lock >= 0) close(state.lock);
    ff_stats_destroy(&state.sums);
    free(state.range);
    free(state.folder);
    return status;
}

/* ---- the folder ----------------------------------------------------------------------------- */

ff_status ff_part_counts_path(char **path, const char *part, const ff_part *number,
                              ff_error *error) {
    return ff_format(path, error, "%.*s." FOLDER, (int)ff_part_base_length(part, number), part);
}

/* "3-of-8.ffp", also while it is replaced: "3-of-8.ffp.Xy1Zab". */
static bool is_ours(const char *name) {
    uint32_t number, count;
    int length = 0;
    if (!strcmp(name, LOCK)) return true;
    return sscanf(name, "%9" SCNu32 "-of-%9" SCNu32 ".ffp%n", &number, &count, &length) == 2 &&
           length && (!name[length] || (name[length] == '.' && strlen(name + length) == 7));
}

void ff_part_counts_remove(const char *output) {
    char *path;
    if (ff_format(&path, NULL, "%.*s." FOLDER, (int)ff_path_length(output), output) != FF_OK)
        return;
    DIR *folder = opendir(path);
    for (const struct dirent *item; folder && (item = readdir(folder));)
        if (is_ours(item->d_name)) unlinkat(dirfd(folder), item->d_name, 0);
    if (folder) closedir(folder);
    rmdir(path);
    free(path);
}
