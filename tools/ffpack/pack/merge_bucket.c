#include "tools/ffpack/pack/merge_bucket.h"

#include "format/base/path.h"
#include "format/cli/interrupt.h"
#include "format/disk/layout.h"
#include "tools/ffpack/bucket/parts.h"
#include "tools/ffpack/bucket/push.h"
#include "tools/ffpack/bucket/sent.h"
#include "tools/ffpack/bucket/ship.h"
#include "tools/ffpack/run/run.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOBS = 8, OPEN_FOLDERS = 16 };

static int remove_item(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)info, (void)kind, (void)at;
    return remove(path);
}

/* An empty folder for this merge alone. */
static ff_status make_place(char **place, const char *url, ff_error *error) {
    char *output, *parent = NULL;
    ff_status status;
    *place = NULL;
    FF_TRY(ff_ship_place(&output, url, NULL, error));
    FF_TRY_DONE(ff_run_parent(&parent, output, error));
    FF_TRY_DONE(ff_format(place, error, "%s/merge-XXXXXX", parent));
    if (!mkdtemp(*place)) {
        status = ff_fail_errno(error, "%s: cannot make a folder", parent);
        free(*place), *place = NULL;
    }
done:
    free(output);
    free(parent);
    return status;
}

/* The merged shards are on the server alone. */
static ff_status record_shards(const ff_bucket_parts *parts, const char *output, const char *split,
                               uint64_t count, ff_error *error) {
    const char *slash = *split ? "/" : "";
    char *folder;
    FF_TRY(ff_format(&folder, error, "%s%s%s", output, slash, split));
    ff_status status = FF_OK;
    for (uint32_t i = 0; i < count && status == FF_OK; i++) {
        char base[32], *name;
        ff_shard_name(base, i);
        status = ff_format(&name, error, "%s%s%s", split, slash, base);
        if (status != FF_OK) break;
        const ff_object *object = ff_parts_find(parts, name);
        status = object ? ff_sent_write(folder, i, object, error)
                        : ff_fail(error, FF_FAILED, "%s: is not in the bucket", name);
        free(name);
    }
    free(folder);
    return status;
}

static void tell_nobody(const char *sentence) {
    (void)sentence;
}

static ff_status run(const ff_merge_options *options, const char *place, ff_bucket_parts *parts,
                     ff_merge_report *report, ff_error *error) {
    ff_merge_options own = *options;
    ff_push_options push = {.url = options->output,
                            .force = options->force,
                            .jobs = JOBS,
                            .storage.check = ff_interrupt_check,
                            .tell = tell_nobody};
    ff_push_report pushed;
    ff_object object;
    char *output;
    ff_status status;
    FF_TRY(ff_path_join(&output, place, "set", error));
    own.output = push.folder = output;
    FF_TRY_DONE(ff_parts_fetch(parts, place, JOBS, error));
    FF_TRY_DONE(
        ff_merge_run(&own, (const char *const *)parts->folder, parts->folders, report, error));
    for (size_t i = 0; i < report->split_count; i++)
        FF_TRY_DONE(record_shards(parts, output, report->split[i].name,
                                  report->split[i].result.shard_count, error));
    if (report->skipped_path) {
        FF_TRY_DONE(ff_storage_write(parts->storage, FF_SKIPPED_OBJECT, report->skipped_path, 1,
                                     &object, error));
        free(report->skipped_path), report->skipped_path = NULL;
        FF_TRY_DONE(ff_path_join(&report->skipped_path, options->output, FF_SKIPPED_OBJECT, error));
    }
    FF_TRY_DONE(ff_push_run(&push, &pushed, error));
    status = ff_parts_remove(parts, error);
done:
    free(output);
    return status;
}

ff_status ff_merge_bucket_run(const ff_merge_options *options, ff_merge_report *report,
                              ff_error *error) {
    ff_bucket_parts parts = {0};
    char *place = NULL, *parent = NULL;
    const ff_storage_options storage = {.check = ff_interrupt_check};
    ff_status status;
    if (options->wait_seconds != FF_MERGE_NO_WAIT)
        return ff_fail(error, FF_USAGE, "--wait: is for folders, and %s is a URL", options->output);
    FF_TRY_DONE(ff_storage_open(&parts.storage, options->output, &storage, error));
    FF_TRY_DONE(make_place(&place, options->output, error));
    status = run(options, place, &parts, report, error);
done:
    if (place) (void)nftw(place, remove_item, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
    if (place && ff_run_parent(&parent, place, NULL) == FF_OK) (void)rmdir(parent);
    ff_storage *opened = parts.storage;
    ff_parts_free(&parts);
    ff_storage_close(&opened);
    free(parent);
    free(place);
    return status;
}
