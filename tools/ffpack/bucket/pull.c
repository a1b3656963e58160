#include "tools/ffpack/bucket/pull.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/thread.h"
#include "format/cli/progress.h"
#include "format/disk/set.h"
#include "format/disk/shard.h"
#include "format/reader/history.h"
#include "format/reader/reader.h"
#include "format/reader/shard_check.h"
#include "format/reader/verify.h"
#include "format/writer/output.h"
#include "tools/ffpack/bucket/bucket.h"
#include "tools/ffpack/source/names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES    (UINT64_C(8) << 20)
#define HISTORY_BYTES (UINT64_C(16) << 20)

typedef struct pull {
    const ff_pull_options *options;
    ff_pull_report *report;
    ff_output *output;
    pthread_mutex_t mutex; /* of all below */
    ff_progress progress;
    uint64_t done;
    ff_error first; /* failure */
} pull;

/* A split while it is fetched. */
typedef struct pull_split {
    pull *job;
    ff_storage *storage;
    const char *folder; /* in DIR.partial */
    uint8_t *index;
    ff_index_header header;
    ff_shard_row *row; /* [header.shard_count] */
} pull_split;

/* ---- index and history ---------------------------------------------------------------------- */

static ff_status fetch_small(pull_split *split, const char *name, ff_object *object,
                             uint8_t **bytes, ff_error *error) {
    FF_TRY(ff_alloc(bytes, object->bytes, 1, name, error));
    if (!object->bytes) return FF_OK;
    return ff_storage_read(split->storage, name, object, 0, object->bytes, *bytes, error);
}

static ff_status fetch_history(pull_split *split, ff_error *error) {
    ff_object object;
    uint8_t *bytes = NULL;
    bool there;
    FF_TRY(ff_storage_look(split->storage, FF_HISTORY_NAME, &object, &there, error));
    if (!there || object.bytes > HISTORY_BYTES) return FF_OK;
    ff_status status = fetch_small(split, FF_HISTORY_NAME, &object, &bytes, error);
    const ff_buffer text = {.bytes = (char *)bytes, .length = object.bytes};
    if (status == FF_OK) status = ff_file_save(split->folder, FF_HISTORY_NAME, &text, error);
    free(bytes);
    split->job->report->files++;
    split->job->report->bytes += object.bytes;
    split->job->report->fetched_bytes += object.bytes;
    return status;
}

/* The header and the rows alone: all of the index is verified at the end. */
static ff_status read_index(pull_split *split, const ff_object *object, ff_error *error) {
    const char *url = ff_storage_url(split->storage);
    char *path;
    FF_TRY(ff_format(&path, error, "%s/" FF_INDEX_NAME, url));
    ff_status status =
        object->bytes < FF_HEADER_BYTES
            ? ff_fail(error, FF_BAD_DATA, "%s: too short for an index", path)
            : ff_index_header_decode(&split->header, split->index, object->bytes, path, error);
    free(path);
    FF_TRY(status);
    const ff_section *rows = &split->header.section[FF_INDEX_SHARDS];
    const uint32_t count = split->header.shard_count;
    bool sound = rows->bytes == (uint64_t)count * FF_SHARD_ROW_BYTES &&
                 rows->offset <= object->bytes && rows->bytes <= object->bytes - rows->offset;
    FF_TRY(ff_alloc(&split->row, sound ? count : 0, sizeof *split->row, "shards", error));
    for (uint32_t i = 0; i < count && sound; i++)
        sound = ff_shard_row_decode(&split->row[i],
                                    split->index + rows->offset + i * FF_SHARD_ROW_BYTES);
    return sound ? FF_OK
                 : ff_fail(error, FF_BAD_DATA, "%s/" FF_INDEX_NAME ": its rows are broken", url);
}

static ff_status fetch_index(pull_split *split, ff_error *error) {
    ff_object object;
    bool there;
    FF_TRY(ff_storage_look(split->storage, FF_INDEX_NAME, &object, &there, error));
    if (!there)
        return ff_fail(error, FF_IO, "%s: its " FF_INDEX_NAME " was removed meanwhile",
                       ff_storage_url(split->storage));
    FF_TRY(fetch_small(split, FF_INDEX_NAME, &object, &split->index, error));
    FF_TRY(read_index(split, &object, error));
    split->job->report->files += 1 + split->header.shard_count;
    split->job->report->bytes += object.bytes;
    split->job->report->fetched_bytes += object.bytes;
    for (uint32_t i = 0; i < split->header.shard_count; i++)
        split->job->report->bytes += split->row[i].file_bytes;
    return FF_OK;
}

/* ---- shards --------------------------------------------------------------------------------- */

static ff_status refuse_left(const char *folder, const char *name, ff_error *error) {
    return ff_fail(error, FF_USAGE, "%s/%s: left by another run; remove %s to start over", folder,
                   name, folder);
}

/* Files that are in the folder already must be of this set. */
static ff_status check_leftovers(const char *folder, const ff_set *set, uint32_t shards,
                                 ff_error *error) {
    ff_names names;
    FF_TRY(ff_names_read(&names, folder, NULL, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        const char *name = ff_names_at(&names, i);
        char stem[64];
        uint32_t number;
        bool ours = ff_bucket_is_ours(name, &number) && (number == UINT32_MAX || number < shards);
        ours |= ff_path_stem(stem, sizeof stem, name, FF_TMP_SUFFIX);
        for (size_t k = 0; k < set->count; k++) ours |= !strcmp(name, set->split[k].name);
        if (!ours) status = refuse_left(folder, name, error);
    }
    ff_names_free(&names);
    return status;
}

/* Whether an earlier run fetched this shard. */
static ff_status is_there(const pull_split *split, uint32_t number, bool *there, ff_error *error) {
    ff_shard shard;
    char name[32];
    ff_shard_name(name, number);
    *there = ff_path_exists("%s/%s", split->folder, name);
    if (!*there) return FF_OK;
    FF_TRY(ff_shard_look(&shard, split->folder, number, error));
    const bool same = shard.bytes == split->row[number].file_bytes &&
                      shard.footer.checksum == split->row[number].footer_checksum;
    ff_shard_close(&shard);
    return same ? FF_OK : refuse_left(split->folder, name, error);
}

static void count(pull *job, uint64_t bytes, bool fetched) {
    pthread_mutex_lock(&job->mutex);
    job->done += bytes;
    job->report->fetched_bytes += fetched ? bytes : 0;
    ff_progress_update(&job->progress, job->done, NULL);
    pthread_mutex_unlock(&job->mutex);
}

static ff_status fetch_into(pull_split *split, const char *name, ff_object *object, ff_file *file,
                            ff_error *error) {
    uint8_t *bytes;
    ff_status status = FF_OK;
    FF_TRY(ff_alloc(&bytes, READ_BYTES < object->bytes ? READ_BYTES : object->bytes, 1,
                    "a part of a shard", error));
    for (uint64_t at = 0; at < object->bytes && status == FF_OK; at += READ_BYTES) {
        const uint64_t left = object->bytes - at, length = left < READ_BYTES ? left : READ_BYTES;
        status = ff_storage_read(split->storage, name, object, at, length, bytes, error);
        if (status == FF_OK) status = ff_file_write(file, bytes, length, error);
        if (status == FF_OK) count(split->job, length, true);
    }
    free(bytes);
    return status;
}

static ff_status fetch_shard(pull_split *split, uint32_t number, ff_error *error) {
    const uint64_t wanted = split->row[number].file_bytes;
    ff_file *file = NULL;
    ff_object object;
    char name[32];
    bool there;
    ff_status status;
    FF_TRY(is_there(split, number, &there, error));
    if (there) {
        count(split->job, wanted, false);
        return FF_OK;
    }
    ff_shard_name(name, number);
    FF_TRY(ff_storage_look(split->storage, name, &object, &there, error));
    if (!there || object.bytes != wanted)
        return ff_fail(error, FF_BAD_DATA,
                       "%s/%s: %s, and the index names one of %" PRIu64 " bytes",
                       ff_storage_url(split->storage), name,
                       there ? "has another size" : "is missing", wanted);
    FF_TRY(ff_file_create(&file, split->folder, name, error));
    FF_TRY_DONE(fetch_into(split, name, &object, file, error));
    status = ff_file_commit(&file, error);
done:
    ff_file_discard(&file);
    return status;
}

static void shard_body(void *context, size_t number) {
    pull_split *split = context;
    pull *job = split->job;
    ff_error error = {0};
    pthread_mutex_lock(&job->mutex);
    const bool stop = job->first.status != FF_OK;
    pthread_mutex_unlock(&job->mutex);
    if (stop || fetch_shard(split, (uint32_t)number, &error) == FF_OK) return;
    pthread_mutex_lock(&job->mutex);
    if (job->first.status == FF_OK) job->first = error;
    pthread_mutex_unlock(&job->mutex);
}

static ff_status fetch_shards(pull_split *split, const ff_split *from, ff_error *error) {
    pull *job = split->job;
    char *what;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < split->header.shard_count; i++) bytes += split->row[i].file_bytes;
    FF_TRY(ff_format(&what, error, "fetching%s%s", *from->name ? " " : "", from->name));
    job->done = 0;
    ff_progress_begin(&job->progress, what, FF_PROGRESS_BYTES, bytes, false);
    ff_status status =
        ff_parallel_for(job->options->jobs, split->header.shard_count, shard_body, split, error);
    ff_progress_end(&job->progress);
    free(what);
    if (status != FF_OK || job->first.status == FF_OK) return status;
    if (error) *error = job->first;
    return job->first.status;
}

/* ---- verifying ------------------------------------------------------------------------------ */

static bool goes_on(void *context, const char *message, uint64_t done, uint64_t total) {
    pull *job = context;
    (void)message;
    job->progress.total = total;
    ff_progress_update(&job->progress, done, NULL);
    return !job->options->storage.check || job->options->storage.check(NULL) == FF_OK;
}

static void note_broken(void *context, uint64_t first, uint64_t slots, const ff_error *problem) {
    (void)first, (void)slots, (void)problem;
    *(bool *)context = true;
}

/* Removes what another run should fetch again: the index, and the shards that are broken. */
static void remove_broken(const pull_split *split) {
    ff_dataset *dataset;
    char *path;
    if (ff_dataset_open(&dataset, split->folder, FF_VERIFY_OFF, NULL) == FF_OK) {
        for (uint32_t i = 0; i < split->header.shard_count; i++) {
            bool broken = false;
            ff_shard shard;
            char name[32];
            ff_shard_check check = {.metadata = ff_dataset_metadata(dataset),
                                    .broken = note_broken,
                                    .context = &broken};
            memcpy(check.metadata_id, ff_dataset_metadata_id(dataset), 16);
            if (ff_shard_open(&shard, split->folder, i, NULL) != FF_OK)
                broken = true;
            else
                broken |= ff_shard_check_run(&check, &shard, NULL) != FF_OK;
            ff_shard_close(&shard);
            ff_shard_name(name, i);
            if (!broken || ff_path_join(&path, split->folder, name, NULL) != FF_OK) continue;
            unlink(path);
            free(path);
        }
        ff_dataset_close(&dataset);
    }
    if (ff_path_join(&path, split->folder, FF_INDEX_NAME, NULL) != FF_OK) return;
    unlink(path);
    free(path);
}

static ff_status verify(pull_split *split, ff_error *error) {
    pull *job = split->job;
    ff_progress_begin(&job->progress, "verifying", FF_PROGRESS_BYTES, 0, false);
    ff_status status = ff_verify_split(split->folder, NULL, ff_cpu_count(), goes_on, job, error);
    ff_progress_end(&job->progress);
    if (status == FF_INTERRUPTED) return job->options->storage.check(error);
    if (status != FF_BAD_DATA) return status;
    remove_broken(split);
    return ff_fail_within(error, status, "%s", ff_storage_url(split->storage));
}

/* ---- a run ---------------------------------------------------------------------------------- */

static ff_status fetch_split(pull_split *split, const ff_split *from, ff_error *error) {
    pull *job = split->job;
    FF_TRY(ff_storage_open(&split->storage, from->path, &job->options->storage, error));
    FF_TRY(ff_output_split(job->output, from->name, &split->folder, error));
    FF_TRY(fetch_index(split, error));
    FF_TRY(check_leftovers(split->folder, &(ff_set){0}, split->header.shard_count, error));
    FF_TRY(fetch_shards(split, from, error));
    FF_TRY(fetch_history(split, error));
    const ff_buffer index = {.bytes = (char *)split->index, .length = split->header.file_bytes};
    FF_TRY(ff_file_save(split->folder, FF_INDEX_NAME, &index, error));
    return verify(split, error);
}

static ff_status run(pull *job, ff_set *set, ff_error *error) {
    const ff_pull_options *options = job->options;
    const char *partial;
    if (!ff_storage_is_url(options->url))
        return ff_fail(error, FF_USAGE, "%s: is not a URL; wanted ffpack pull URL DIR",
                       options->url);
    FF_TRY(ff_set_find(set, options->url, error));
    FF_TRY(ff_output_open(&job->output, options->folder, FF_OUTPUT_NEW_OR_CONTINUE, options->force,
                          error));
    FF_TRY(ff_output_split(job->output, "", &partial, error));
    if (*set->split[0].name) FF_TRY(check_leftovers(partial, set, 0, error));
    for (size_t i = 0; i < set->count; i++) {
        pull_split split = {.job = job};
        const ff_status status = fetch_split(&split, &set->split[i], error);
        ff_storage_close(&split.storage);
        free(split.index);
        free(split.row);
        FF_TRY(status);
    }
    return ff_output_commit(job->output, error);
}

ff_status ff_pull_run(const ff_pull_options *options, ff_pull_report *report, ff_error *error) {
    pull job = {.options = options, .report = report};
    ff_set set = {0};
    *report = (ff_pull_report){0};
    pthread_mutex_init(&job.mutex, NULL);
    const ff_status status = run(&job, &set, error);
    ff_set_free(&set);
    ff_output_close(&job.output);
    pthread_mutex_destroy(&job.mutex);
    return status;
}
