#include "tools/ffpack/bucket/push.h"

#include "format/base/path.h"
#include "format/base/read.h"
#include "format/base/thread.h"
#include "format/cli/progress.h"
#include "format/disk/set.h"
#include "format/reader/history.h"
#include "format/reader/reader.h"
#include "tools/ffpack/bucket/sent.h"
#include "tools/ffpack/bucket/target.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A file of the set. */
typedef struct push_file {
    char *name, *path; /* below the URL; on the disk */
    uint64_t bytes;
    ff_object object; /* what the server has, once it has this file; version "": unknown */
    bool is_index, is_history, is_train;
    bool shipped; /* a shard whose samples are on the server alone (sent.h): `object` */
} push_file;

typedef struct push {
    const ff_push_options *options;
    ff_push_report *report;
    ff_set set;
    const char **split; /* [set.count]: the names */
    ff_target target;
    push_file *file; /* in the order of names */
    size_t count, capacity;
    pthread_mutex_t mutex; /* of all below, and of the report */
    ff_progress progress;
    uint64_t done;
    ff_error first; /* failure */
} push;

/* ---- the folder ----------------------------------------------------------------------------- */

static ff_status add_file(push *job, const ff_split *split, const char *base, ff_error *error) {
    int fd;
    FF_TRY(
        ff_reserve(&job->file, &job->capacity, job->count + 1, sizeof *job->file, "files", error));
    push_file *file = &job->file[job->count++];
    FF_TRY(*split->name ? ff_path_join(&file->name, split->name, base, error)
                        : ff_copy_string(&file->name, base, error));
    FF_TRY(ff_path_join(&file->path, split->path, base, error));
    FF_TRY(ff_open_file(file->path, &fd, &file->bytes, error));
    ff_close_file(&fd);
    file->is_index = !strcmp(base, FF_INDEX_NAME);
    file->is_history = !strcmp(base, FF_HISTORY_NAME);
    file->is_train = ff_set_rank_of(split->name) == FF_SPLIT_TRAIN;
    FF_TRY(ff_sent_read(file->path, &file->object, &file->shipped, error));
    job->report->files++;
    job->report->bytes += file->bytes;
    return FF_OK;
}

/* Opening checks the index, and that the shards have the sizes that it names. */
static ff_status add_split(push *job, const ff_split *split, ff_error *error) {
    ff_dataset *dataset;
    if (split->kind != FF_FOLDER_SPLIT) return ff_set_refuse(split->path, error);
    FF_TRY(ff_dataset_open(&dataset, split->path, FF_VERIFY_OFF, error));
    const uint32_t shards = ff_dataset_shard_count(dataset);
    ff_dataset_close(&dataset);
    ff_status status = add_file(job, split, FF_INDEX_NAME, error);
    if (status == FF_OK && ff_path_exists("%s/" FF_HISTORY_NAME, split->path))
        status = add_file(job, split, FF_HISTORY_NAME, error);
    for (uint32_t i = 0; i < shards && status == FF_OK; i++) {
        char name[32];
        ff_shard_name(name, i);
        status = add_file(job, split, name, error);
    }
    return status;
}

static int compare_files(const void *a, const void *b) {
    return strcmp(((const push_file *)a)->name, ((const push_file *)b)->name);
}

static ff_status find_files(push *job, ff_error *error) {
    const char *folder = job->options->folder;
    FF_TRY(ff_set_check_folder(folder, error));
    FF_TRY(ff_set_find(&job->set, folder, error));
    if (!job->set.count) return ff_set_refuse(folder, error);
    FF_TRY(ff_alloc(&job->split, job->set.count, sizeof *job->split, "splits", error));
    for (size_t i = 0; i < job->set.count; i++) {
        job->split[i] = job->set.split[i].name;
        FF_TRY(add_split(job, &job->set.split[i], error));
    }
    qsort(job->file, job->count, sizeof *job->file, compare_files);
    return FF_OK;
}

static bool is_own(void *context, const char *name) {
    const push *job = context;
    const push_file wanted = {.name = (char *)(uintptr_t)name};
    return bsearch(&wanted, job->file, job->count, sizeof *job->file, compare_files) != NULL;
}

/* ---- sending -------------------------------------------------------------------------------- */

static bool is_shard(const push_file *file) {
    return !file->is_index && !file->is_history;
}

static ff_status refuse_changed(const push *job, const push_file *file, ff_error *error) {
    return ff_fail(error, FF_IO,
                   "%s/%s: was replaced or removed while the set was sent; the same command "
                   "continues",
                   ff_storage_url(job->target.storage), file->name);
}

/* Sends a file, unless the server has it with the same bytes. */
static ff_status send_file(push *job, push_file *file, int threads, bool *sent, ff_error *error) {
    const ff_object *there = ff_target_find(&job->target, file->name);
    ff_object own;
    *sent = false;
    if (file->shipped) return FF_OK; /* look_again compares it */
    if (there && there->bytes == file->bytes) {
        FF_TRY(ff_storage_expect(file->path, &own, error));
        file->object = own;
        if (!strcmp(own.version, there->version)) return FF_OK;
    }
    FF_TRY(ff_storage_write(job->target.storage, file->name, file->path, threads, &file->object,
                            error));
    if (file->object.bytes != file->bytes)
        return ff_fail(error, FF_BAD_DATA, "%s: changed while it was sent", file->path);
    *sent = true;
    return FF_OK;
}

static void send_body(void *context, size_t i) {
    push *job = context;
    push_file *file = &job->file[i];
    const int threads = 1 + job->options->jobs / (int)(job->count < 64 ? job->count : 64);
    ff_error error = {0};
    bool sent;
    pthread_mutex_lock(&job->mutex);
    const bool stop = !is_shard(file) || job->first.status != FF_OK;
    pthread_mutex_unlock(&job->mutex);
    if (stop) return;
    const ff_status status = send_file(job, file, threads, &sent, &error);
    pthread_mutex_lock(&job->mutex);
    if (status != FF_OK && job->first.status == FF_OK) job->first = error;
    job->done += file->bytes;
    job->report->sent += sent;
    job->report->sent_bytes += sent ? file->bytes : 0;
    ff_progress_update(&job->progress, job->done, NULL);
    pthread_mutex_unlock(&job->mutex);
}

static ff_status send_all(push *job, ff_error *error) {
    ff_progress_begin(&job->progress, "sending", FF_PROGRESS_BYTES, job->report->bytes, false);
    ff_status status = ff_parallel_for(job->options->jobs, job->count, send_body, job, error);
    ff_progress_end(&job->progress);
    if (status != FF_OK || job->first.status == FF_OK) return status;
    if (error) *error = job->first;
    return job->first.status;
}

/* Before an index makes the set visible: all shards must still be as they were sent. */
static ff_status look_again(push *job, ff_error *error) {
    FF_TRY(ff_target_look(&job->target, error));
    for (size_t i = 0; i < job->count; i++) {
        const push_file *file = &job->file[i];
        const ff_object *there = ff_target_find(&job->target, file->name);
        if (!is_shard(file)) continue;
        if (!there || there->bytes != file->bytes ||
            (*file->object.version && strcmp(there->version, file->object.version)))
            return refuse_changed(job, file, error);
    }
    return FF_OK;
}

static ff_status send_last(push *job, push_file *file, ff_error *error) {
    bool sent;
    FF_TRY(send_file(job, file, job->options->jobs, &sent, error));
    job->report->sent += sent;
    job->report->sent_bytes += sent ? file->bytes : 0;
    return FF_OK;
}

/* The histories come late, too: until then an older set that is there keeps its own. */
static ff_status send_indexes(push *job, ff_error *error) {
    for (size_t i = 0; i < job->count; i++)
        if (job->file[i].is_history) FF_TRY(send_last(job, &job->file[i], error));
    for (int train = 0; train < 2; train++)
        for (size_t i = 0; i < job->count; i++)
            if (job->file[i].is_index && job->file[i].is_train == (train == 1))
                FF_TRY(send_last(job, &job->file[i], error));
    return FF_OK;
}

/* Another set is refused or, by --force, no longer found by readers from here on. */
static ff_status clear_target(push *job, ff_error *error) {
    ff_target *target = &job->target;
    const char *other;
    ff_error unlisted = {0};
    FF_TRY(ff_target_look(target, error));
    FF_TRY(ff_target_compare(target, job->options->folder, &other, error));
    if (other && !job->options->force) return ff_target_refuse(target, other, error);
    if (ff_storage_abort(target->storage, is_own, job, &unlisted) != FF_OK) {
        FF_TRY(ff_storage_check(target->storage, error));
        job->options->tell(unlisted.message);
    }
    return other ? ff_target_remove(target, is_own, job, &job->report->removed, error) : FF_OK;
}

static ff_status run(push *job, ff_error *error) {
    const ff_push_options *options = job->options;
    FF_TRY(find_files(job, error));
    FF_TRY(ff_storage_open(&job->target.storage, options->url, &options->storage, error));
    job->target.split = job->split;
    job->target.splits = job->set.count;
    FF_TRY(clear_target(job, error));
    FF_TRY(send_all(job, error));
    FF_TRY(look_again(job, error));
    return send_indexes(job, error);
}

ff_status ff_push_run(const ff_push_options *options, ff_push_report *report, ff_error *error) {
    push job = {.options = options, .report = report};
    *report = (ff_push_report){0};
    pthread_mutex_init(&job.mutex, NULL);
    const ff_status status = run(&job, error);
    pthread_mutex_destroy(&job.mutex);
    for (size_t i = 0; i < job.count; i++) {
        free(job.file[i].name);
        free(job.file[i].path);
    }
    free(job.file);
    free(job.split);
    ff_set_free(&job.set);
    ff_target_free(&job.target);
    ff_storage_close(&job.target.storage);
    return status;
}
