#include "format/reader/verification.h"

#include "format/cli/progress.h"
#include "format/cli/say.h"
#include "format/reader/reader.h"
#include "format/reader/verify.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct listener {
    ff_verification *verification;
    pthread_mutex_t mutex; /* shards are verified concurrently */
    ff_progress progress;
} listener;

static void keep(ff_verification *verification, const char *message) {
    size_t count = verification->problem_count;
    if (count >= FF_PROBLEMS_LIMIT ||
        ff_reserve(&verification->problem, &verification->problem_capacity, count + 1,
                   sizeof *verification->problem, "problems", NULL) != FF_OK ||
        ff_copy_string(&verification->problem[count], message, NULL) != FF_OK)
        verification->problems_left_out++;
    else
        verification->problem_count++;
}

static bool on_report(void *context, const char *message, uint64_t done, uint64_t total) {
    listener *heard = context;
    pthread_mutex_lock(&heard->mutex);
    heard->verification->bytes = total;
    heard->progress.total = total;
    if (message) keep(heard->verification, message);
    ff_progress_update(&heard->progress, done, NULL);
    pthread_mutex_unlock(&heard->mutex);
    return true;
}

ff_status ff_verification_run(ff_verification *verification, const char *path, int jobs,
                              ff_error *error) {
    *verification = (ff_verification){0};
    listener heard = {.verification = verification};
    pthread_mutex_init(&heard.mutex, NULL);
    ff_progress_begin(&heard.progress, "verifying", FF_PROGRESS_BYTES, 0, false);
    ff_error first = {0};
    ff_status status = ff_verify_split(path, NULL, jobs, on_report, &heard, &first);
    ff_progress_end(&heard.progress);
    pthread_mutex_destroy(&heard.mutex);
    if (error) *error = first;
    /* ff_verify_split returns a failure to open the split without reporting it: keep it as a
     * problem. */
    if (status != FF_OK && verification->problem_count + verification->problems_left_out == 0)
        keep(verification, first.message);
    if (status != FF_OK) return status;
    ff_dataset *dataset;
    FF_TRY(ff_dataset_open(&dataset, path, FF_VERIFY_OFF, error));
    verification->files = ff_dataset_shard_count(dataset) + UINT64_C(1);
    ff_dataset_close(&dataset);
    return FF_OK;
}

void ff_verification_free(ff_verification *verification) {
    for (size_t i = 0; i < verification->problem_count; i++) free(verification->problem[i]);
    free(verification->problem);
    *verification = (ff_verification){0};
}

static void print(const ff_verification *verification, const char *name, FILE *out) {
    for (size_t i = 0; i < verification->problem_count; i++)
        fprintf(out, "problem: %s\n", verification->problem[i]);
    if (verification->problems_left_out)
        fprintf(out, "problem: ... and %" PRIu64 " more\n", verification->problems_left_out);
    if (verification->problem_count == 0)
        fprintf(out, "%s: verified: %" PRIu64 " bytes in %s, all good\n", name, verification->bytes,
                ff_say_count(verification->files, "file", "files").text);
}

ff_status ff_verification_print(const ff_set *set, int jobs, FILE *out, ff_error *error) {
    ff_status result = FF_OK;
    for (size_t i = 0; i < set->count; i++) {
        const char *path = set->split[i].path;
        ff_verification found;
        ff_error problem = {0};
        const ff_status status = ff_verification_run(&found, path, jobs, &problem);
        print(&found, path, out);
        const uint64_t problems = found.problem_count + found.problems_left_out;
        ff_verification_free(&found);
        if (status == FF_OK) continue;
        if (result == FF_OK)
            result = ff_fail(error, status, "%s: %s, the first: %s", path,
                             ff_say_count(problems, "problem", "problems").text, problem.message);
        if (status == FF_INTERRUPTED) break;
    }
    return result;
}
