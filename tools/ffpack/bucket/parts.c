#include "tools/ffpack/bucket/parts.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/thread.h"
#include "format/disk/generation.h"
#include "format/disk/layout.h"
#include "format/reader/history.h"
#include "tools/ffpack/bucket/ends.h"
#include "tools/ffpack/bucket/sent.h"
#include "tools/ffpack/source/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES (UINT64_C(64) << 20)

/* How a part's files are called on the disk and in the bucket. */
static const struct {
    const char *local, *suffix;
} files[] = {{FF_HISTORY_NAME, ".jsonl"}, {FF_PART_NAME, ".ffp"}};
static const char *const lists[] = {".skipped.tsv", ".skipped.json"};

/* ---- packing -------------------------------------------------------------------------------- */

static ff_status send_file(ff_storage *storage, const char *name, const char *path,
                           ff_error *error) {
    ff_object object;
    if (!ff_path_exists("%s", path)) return FF_OK;
    return ff_storage_write(storage, name, path, 1, &object, error);
}

/* A shard that was sent from this folder is still as it was. */
static ff_status check_shard(const ff_target *target, const char *folder, const char *split,
                             const char *base, ff_error *error) {
    char *path = NULL, *name = NULL;
    ff_object wanted;
    bool sent;
    ff_status status;
    FF_TRY_DONE(ff_path_join(&path, folder, base, error));
    FF_TRY_DONE(ff_format(&name, error, "%s%s%s", split, *split ? "/" : "", base));
    FF_TRY_DONE(ff_sent_read(path, &wanted, &sent, error));
    const ff_object *there = ff_target_find(target, name);
    if (!sent || !there || there->bytes != wanted.bytes || strcmp(there->version, wanted.version))
        status = ff_fail(error, FF_IO,
                         "%s/%s: was replaced or removed while the part was sent; the same command "
                         "continues",
                         ff_storage_url(target->storage), name);
done:
    free(path);
    free(name);
    return status;
}

static ff_status check_shards(const ff_target *target, const char *folder, const char *split,
                              ff_error *error) {
    ff_names names;
    FF_TRY(ff_names_read(&names, folder, NULL, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        uint32_t number;
        const char *base = ff_names_at(&names, i);
        if (ff_shard_name_parse(base, &number))
            status = check_shard(target, folder, split, base, error);
    }
    ff_names_free(&names);
    return status;
}

/* Sends DIRECTORY followed by `local` as FOLDER followed by part-I-of-N and `suffix`. */
static ff_status send_record(const ff_target *target, const char *directory, const char *local,
                             const char *folder, const ff_part *part, const char *suffix,
                             ff_error *error) {
    char *path = NULL, *name = NULL;
    ff_status status;
    FF_TRY_DONE(ff_format(&path, error, "%s%s", directory, local));
    FF_TRY_DONE(
        ff_format(&name, error, "%spart-%u-of-%u%s", folder, part->number, part->count, suffix));
    status = send_file(target->storage, name, path, error);
done:
    free(path);
    free(name);
    return status;
}

static ff_status send_split(const ff_target *target, const char *partial, const char *split,
                            const ff_part *part, ff_error *error) {
    const char *slash = *split ? "/" : "";
    char *folder, *local = NULL;
    ff_status status;
    FF_TRY(ff_format(&folder, error, "%s%s", split, slash));
    FF_TRY_DONE(ff_format(&local, error, "%s/%s", partial, folder));
    FF_TRY_DONE(check_shards(target, local, split, error));
    for (size_t i = 0; i < sizeof files / sizeof *files && status == FF_OK; i++)
        status = send_record(target, local, files[i].local, folder, part, files[i].suffix, error);
done:
    free(folder);
    free(local);
    return status;
}

ff_status ff_parts_send(ff_target *target, const char *partial, const ff_part *part,
                        const char *skipped, ff_error *error) {
    char *stem;
    FF_TRY(ff_target_look(target, error));
    FF_TRY(ff_copy_bytes(&stem, skipped, strlen(skipped) - strlen(lists[0]), error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < sizeof lists / sizeof *lists && status == FF_OK; i++)
        status = send_record(target, stem, lists[i], "", part, lists[i], error);
    free(stem);
    for (size_t i = 0; i < target->splits && status == FF_OK; i++)
        status = send_split(target, partial, target->split[i], part, error);
    return status;
}

/* ---- merging -------------------------------------------------------------------------------- */

/* "[SPLIT/]part-I-of-N" and what follows; NULL if the name is another. SPLIT becomes a folder. */
static const char *parse(const char *name, ff_part *part, size_t *split_bytes) {
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    int length = 0;
    *split_bytes = slash ? (size_t)(slash - name) : 0;
    if ((slash && memchr(name, '/', *split_bytes)) || *name == '.') return NULL;
    if (sscanf(base, "part-%" SCNu32 "-of-%" SCNu32 "%n", &part->number, &part->count, &length) !=
        2)
        return NULL;
    char own[64];
    snprintf(own, sizeof own, "part-%u-of-%u", part->number, part->count);
    const bool spelled = (int)strlen(own) == length && !memcmp(own, base, (size_t)length);
    return spelled && part->number >= 1 && part->number <= part->count ? base + length : NULL;
}

static bool is_record(const char *name) {
    ff_part part;
    size_t split_bytes;
    const char *suffix = parse(name, &part, &split_bytes);
    bool known = false;
    for (size_t i = 0; suffix && i < sizeof files / sizeof *files; i++)
        known |= !strcmp(suffix, files[i].suffix);
    for (size_t i = 0; suffix && !split_bytes && i < sizeof lists / sizeof *lists; i++)
        known |= !strcmp(suffix, lists[i]);
    return known;
}

static ff_status take(void *context, const char *name, const ff_object *object, ff_error *error) {
    ff_bucket_parts *parts = context;
    const char *slash = strrchr(name, '/');
    uint32_t number;
    if (!is_record(name) && !ff_shard_name_parse(slash ? slash + 1 : name, &number)) return FF_OK;
    FF_TRY(ff_reserve(&parts->object, &parts->capacity, parts->count + 1, sizeof *parts->object,
                      "objects", error));
    FF_TRY(ff_copy_string(&parts->object[parts->count].name, name, error));
    parts->object[parts->count++].object = *object;
    return FF_OK;
}

static int compare(const void *a, const void *b) {
    return strcmp(((const ff_bucket_object *)a)->name, ((const ff_bucket_object *)b)->name);
}

const ff_object *ff_parts_find(const ff_bucket_parts *parts, const char *name) {
    const ff_bucket_object wanted = {.name = (char *)(uintptr_t)name};
    if (!parts->count) return NULL;
    const ff_bucket_object *found =
        bsearch(&wanted, parts->object, parts->count, sizeof *parts->object, compare);
    return found ? &found->object : NULL;
}

static ff_status fetch_file(const ff_bucket_parts *parts, const ff_bucket_object *from,
                            const char *path, ff_error *error) {
    ff_object object = from->object;
    ff_file *file = NULL;
    uint8_t *bytes;
    ff_status status;
    if (object.bytes > RECORD_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s/%s: is too large for a part's record",
                       ff_storage_url(parts->storage), from->name);
    FF_TRY(ff_alloc(&bytes, object.bytes, 1, "a part's record", error));
    if (object.bytes)
        FF_TRY_DONE(
            ff_storage_read(parts->storage, from->name, &object, 0, object.bytes, bytes, error));
    FF_TRY_DONE(ff_file_replace(&file, path, error));
    FF_TRY_DONE(ff_file_write(file, bytes, object.bytes, error));
    status = ff_file_commit(&file, error);
done:
    ff_file_discard(&file);
    free(bytes);
    return status;
}

/* PLACE/part-I-of-N, once. */
static ff_status add_folder(ff_bucket_parts *parts, const char *place, const ff_part *part,
                            ff_error *error) {
    char *folder;
    FF_TRY(ff_format(&folder, error, "%s/part-%u-of-%u", place, part->number, part->count));
    for (size_t i = 0; i < parts->folders; i++)
        if (!strcmp(parts->folder[i], folder)) return free(folder), FF_OK;
    const ff_status status = ff_reserve(&parts->folder, &parts->folder_capacity, parts->folders + 1,
                                        sizeof *parts->folder, "parts", error);
    if (status != FF_OK) return free(folder), status;
    parts->folder[parts->folders++] = folder;
    return FF_OK;
}

static ff_status fetch_record(ff_bucket_parts *parts, const ff_bucket_object *from,
                              const char *place, ff_error *error) {
    ff_part part;
    size_t split_bytes;
    char *folder = NULL, *path = NULL;
    const char *suffix = parse(from->name, &part, &split_bytes), *local = NULL;
    ff_status status;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strcmp(suffix, files[i].suffix)) local = files[i].local;
    FF_TRY_DONE(ff_format(&folder, error, "%s/part-%u-of-%u%s%.*s", place, part.number, part.count,
                          split_bytes ? "/" : "", (int)split_bytes, from->name));
    FF_TRY_DONE(ff_make_folders(folder, error));
    FF_TRY_DONE(add_folder(parts, place, &part, error));
    FF_TRY_DONE(local ? ff_path_join(&path, folder, local, error)
                      : ff_format(&path, error, "%s%s", folder, suffix));
    status = fetch_file(parts, from, path, error);
done:
    free(folder);
    free(path);
    return status;
}

/* A shard of which the ends are fetched. */
typedef struct shard_job {
    char *name, *folder;
    uint32_t number;
    const ff_object *object;
} shard_job;

typedef struct shard_jobs {
    const ff_bucket_parts *parts;
    shard_job *job;
    size_t count, capacity;
    pthread_mutex_t mutex;
    ff_error first; /* failure */
} shard_jobs;

/* The shards that a record names. */
static ff_status add_shards(shard_jobs *jobs, const ff_bucket_object *from, const char *place,
                            ff_error *error) {
    ff_part part, own;
    size_t split_bytes;
    ff_buffer text = {0};
    ff_metadata metadata = {0};
    char *folder = NULL;
    uint32_t first, end;
    ff_status status;
    (void)parse(from->name, &part, &split_bytes);
    FF_TRY_DONE(ff_format(&folder, error, "%s/part-%u-of-%u%s%.*s", place, part.number, part.count,
                          split_bytes ? "/" : "", (int)split_bytes, from->name));
    FF_TRY_DONE(ff_part_read(&own, folder, &text, error));
    if (own.number != part.number || own.count != part.count)
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "%s/%s: is the record of part %u/%u",
                            ff_storage_url(jobs->parts->storage), from->name, own.number,
                            own.count));
    FF_TRY_DONE(ff_metadata_read(&metadata, text.bytes, text.length, error));
    ff_part_range(&part, ff_metadata_shard_count(&metadata), &first, &end);
    for (uint32_t number = first; number < end; number++) {
        shard_job one = {.number = number};
        char base[32];
        ff_shard_name(base, number);
        FF_TRY_DONE(ff_reserve(&jobs->job, &jobs->capacity, jobs->count + 1, sizeof *jobs->job,
                               "shards", error));
        FF_TRY_DONE(ff_format(&one.name, error, "%.*s%s%s", (int)split_bytes, from->name,
                              split_bytes ? "/" : "", base));
        jobs->job[jobs->count++] = one;
        FF_TRY_DONE(ff_copy_string(&jobs->job[jobs->count - 1].folder, folder, error));
        jobs->job[jobs->count - 1].object = ff_parts_find(jobs->parts, one.name);
    }
done:
    free(folder);
    ff_metadata_free(&metadata);
    ff_buffer_free(&text);
    return status;
}

static void fetch_body(void *context, size_t i) {
    shard_jobs *jobs = context;
    const shard_job *own = &jobs->job[i];
    ff_error error = {0};
    pthread_mutex_lock(&jobs->mutex);
    const bool stop = jobs->first.status != FF_OK;
    pthread_mutex_unlock(&jobs->mutex);
    if (stop || !own->object) return;
    if (ff_ends_fetch(jobs->parts->storage, own->name, own->object, own->folder, own->number,
                      &error) == FF_OK)
        return;
    pthread_mutex_lock(&jobs->mutex);
    if (jobs->first.status == FF_OK) jobs->first = error;
    pthread_mutex_unlock(&jobs->mutex);
}

static ff_status fetch_shards(const ff_bucket_parts *parts, const char *place, int threads,
                              ff_error *error) {
    shard_jobs jobs = {.parts = parts};
    const char *const record = files[1].suffix;
    ff_status status = FF_OK;
    pthread_mutex_init(&jobs.mutex, NULL);
    for (size_t i = 0; i < parts->count; i++) {
        const char *end = strrchr(parts->object[i].name, '.');
        if (is_record(parts->object[i].name) && !strcmp(end, record))
            FF_TRY_DONE(add_shards(&jobs, &parts->object[i], place, error));
    }
    FF_TRY_DONE(ff_parallel_for(threads, jobs.count, fetch_body, &jobs, error));
    if (jobs.first.status != FF_OK && error) *error = jobs.first;
    status = jobs.first.status;
done:
    for (size_t i = 0; i < jobs.count; i++) {
        free(jobs.job[i].name);
        free(jobs.job[i].folder);
    }
    free(jobs.job);
    pthread_mutex_destroy(&jobs.mutex);
    return status;
}

ff_status ff_parts_fetch(ff_bucket_parts *parts, const char *place, int jobs, ff_error *error) {
    FF_TRY(ff_storage_may_write(parts->storage, error));
    FF_TRY(ff_storage_list(parts->storage, "", take, parts, error));
    if (parts->count) qsort(parts->object, parts->count, sizeof *parts->object, compare);
    for (size_t i = 0; i < parts->count; i++)
        if (is_record(parts->object[i].name))
            FF_TRY(fetch_record(parts, &parts->object[i], place, error));
    if (!parts->folders)
        return ff_fail(error, FF_USAGE,
                       "%s: no part is there; ffpack SOURCE -o %s --part I/N sends one",
                       ff_storage_url(parts->storage), ff_storage_url(parts->storage));
    return fetch_shards(parts, place, jobs, error);
}

ff_status ff_parts_remove(const ff_bucket_parts *parts, ff_error *error) {
    for (size_t i = 0; i < parts->count; i++)
        if (is_record(parts->object[i].name))
            FF_TRY(ff_storage_remove(parts->storage, parts->object[i].name, error));
    return FF_OK;
}

void ff_parts_free(ff_bucket_parts *parts) {
    for (size_t i = 0; i < parts->count; i++) free(parts->object[i].name);
    for (size_t i = 0; i < parts->folders; i++) free(parts->folder[i]);
    free(parts->object);
    free(parts->folder);
    *parts = (ff_bucket_parts){0};
}
