#include "tools/ffinspect/find.h"

#include "format/base/json.h"
#include "format/base/readable.h"
#include "format/cli/nearest.h"
#include "tools/ffinspect/facts/label.h"
#include "tools/ffinspect/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_VALUES = 24, NAME_LIMIT = 300 };

/* Handles a sample that was found. */
typedef ff_status taker(void *context, ff_dataset *dataset, const char *split, uint64_t number,
                        ff_error *error);

typedef struct search {
    const ff_set *list;
    const char *key;
    char *decoded; /* the same with each %XX decoded */
    size_t key_bytes, decoded_bytes;
    taker *take;
    void *context;
    uint64_t found;
    ff_nearest nearest; /* its name is near_key */
    char near_key[FF_KEY_LIMIT_BYTES + 1];
    const char *near_split;
    bool near_by_base; /* near_key ends with /KEY */
} search;

static bool is_same(const char *wanted, size_t wanted_bytes, const char *split, const char *key,
                    size_t bytes) {
    const size_t head = strlen(split);
    if (wanted_bytes == bytes && !memcmp(wanted, key, bytes)) return true;
    return head && wanted_bytes == head + 1 + bytes && !memcmp(wanted, split, head) &&
           wanted[head] == '/' && !memcmp(wanted + head + 1, key, bytes);
}

/* Keeps the key if it is the nearest so far: a key that ends with the wanted one counts as
 * nearest. */
static void offer(search *job, const char *split, const char *key, size_t bytes) {
    char text[FF_KEY_LIMIT_BYTES + 1];
    const size_t wanted = job->key_bytes;
    if (job->near_by_base || memchr(key, 0, bytes)) return;
    memcpy(text, key, bytes);
    text[bytes] = 0;
    job->near_by_base = wanted && bytes > wanted && key[bytes - wanted - 1] == '/' &&
                        !memcmp(key + bytes - wanted, job->key, wanted);
    if (!job->near_by_base) {
        ff_nearest_offer(&job->nearest, text);
        if (job->nearest.name != text) return;
    }
    memcpy(job->near_key, text, bytes + 1);
    job->nearest.name = job->near_key;
    job->near_split = split;
}

static ff_status look_in(search *job, const ff_split *split, bool near, ff_error *error) {
    const char *name = split->name;
    ff_dataset *dataset;
    FF_TRY(ff_dataset_open(&dataset, split->path, FF_VERIFY_FIRST, error));
    ff_status status = FF_OK;
    const uint64_t count = ff_dataset_count(dataset);
    for (uint64_t i = 0; i < count && status == FF_OK; i++) {
        char key[FF_KEY_LIMIT_BYTES];
        size_t bytes;
        ff_dataset_scan(dataset, i, FF_SCAN_ENTRIES);
        status = ff_dataset_key(dataset, i, key, &bytes, error);
        if (status != FF_OK) break;
        if (near) {
            offer(job, name, key, bytes);
        } else if (is_same(job->key, job->key_bytes, name, key, bytes) ||
                   is_same(job->decoded, job->decoded_bytes, name, key, bytes)) {
            job->found++;
            status = job->take(job->context, dataset, name, i, error);
        }
    }
    ff_dataset_close(&dataset);
    return status;
}

static ff_status refuse(const search *job, ff_error *error) {
    ff_buffer near = {0};
    ff_status status = FF_OK;
    if (job->nearest.name && *job->near_split && job->list->count > 1)
        status = ff_buffer_printf(&near, error, "%s/", job->near_split);
    if (status == FF_OK && job->nearest.name)
        status = ff_key_text(&near, job->nearest.name, strlen(job->nearest.name), true, error);
    if (status == FF_OK)
        status = ff_fail(error, FF_FAILED, "--find: no sample has the key '%s'%s%s%s", job->key,
                         near.length ? "; did you mean '" : "; --keys lists them",
                         near.length ? near.bytes : "", near.length ? "'?" : "");
    ff_buffer_free(&near);
    return status;
}

static ff_status find(const ff_set *list, const char *key, taker *take, void *context,
                      ff_error *error) {
    search job = {.list = list,
                  .key = key,
                  .key_bytes = strlen(key),
                  .take = take,
                  .context = context,
                  .nearest = {.wanted = key, .length = strlen(key)}};
    FF_TRY(ff_copy_string(&job.decoded, key, error));
    job.decoded_bytes = ff_unescape(job.decoded, key, job.key_bytes);
    ff_status status;
    for (size_t i = 0; i < list->count; i++)
        FF_TRY_DONE(look_in(&job, &list->split[i], false, error));
    for (size_t i = 0; i < list->count && !job.found; i++)
        FF_TRY_DONE(look_in(&job, &list->split[i], true, error));
    status = job.found ? FF_OK : refuse(&job, error);
done:
    free(job.decoded);
    return status;
}

/* ---- for people ----------------------------------------------------------------------------- */

/* "cat/17.jpg: sample 17 of train, shard-000000.ffs, 3 x 32 x 32, label: 3 cat" */
static ff_status describe(ff_buffer *text, ff_dataset *dataset, ff_reader *reader,
                          const char *split, uint64_t number, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const bool chw = metadata->layout == FF_CHW;
    char key[FF_KEY_LIMIT_BYTES];
    size_t bytes;
    ff_entry entry;
    ff_shard_info shard;
    FF_TRY(ff_dataset_key(dataset, number, key, &bytes, error));
    FF_TRY(ff_dataset_entry(dataset, number, &entry, error));
    FF_TRY(ff_dataset_shard(dataset, entry.shard, &shard, error));
    FF_TRY(ff_key_text(text, key, bytes, true, error));
    FF_TRY(ff_buffer_printf(
        text, error, ": sample %" PRIu64 "%s%s, %s, %u x %u x %u", number, *split ? " of " : "",
        split, shard.name, chw ? metadata->channels : entry.height,
        chw ? entry.height : entry.width, chw ? entry.width : metadata->channels));
    for (size_t i = 0; i < metadata->field_count; i++) {
        const char *name = metadata->field[i].name;
        FF_TRY(ff_buffer_printf(text, error, ", "));
        FF_TRY(ff_readable(text, name, strlen(name), NAME_LIMIT, error));
        FF_TRY(ff_buffer_printf(text, error, ": "));
        FF_TRY(ff_inspect_label(text, reader, dataset, number, i, LABEL_VALUES, error));
    }
    return FF_OK;
}

static ff_status print_found(void *context, ff_dataset *dataset, const char *split, uint64_t number,
                             ff_error *error) {
    ff_reader *reader;
    ff_buffer text = {0};
    (void)context;
    FF_TRY(ff_reader_open(&reader, dataset, error));
    ff_status status = describe(&text, dataset, reader, split, number, error);
    if (status == FF_OK) puts(text.bytes);
    ff_buffer_free(&text);
    ff_reader_close(&reader);
    return status;
}

ff_status ff_inspect_print_found(const ff_set *list, const char *key, ff_error *error) {
    return find(list, key, print_found, NULL, error);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static ff_status add_found(void *context, ff_dataset *dataset, const char *split, uint64_t number,
                           ff_error *error) {
    json_t *one;
    FF_TRY(ff_inspect_json_samples(&one, dataset, number, number + 1, error));
    const bool failed = json_object_set_new(json_array_get(one, 0), "split", ff_json_text(split)) ||
                        json_array_extend(context, one);
    json_decref(one);
    return failed ? ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document") : FF_OK;
}

ff_status ff_inspect_json_found(json_t **out, const ff_set *list, const char *key,
                                ff_error *verdict, ff_error *error) {
    ff_error problem = {0};
    *out = json_array();
    if (!*out) return ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
    ff_status status = find(list, key, add_found, *out, &problem);
    if (status == FF_OK) return FF_OK;
    if (status == FF_FAILED) {
        *verdict = problem;
        return FF_OK;
    }
    json_decref(*out);
    *out = NULL;
    if (error) *error = problem;
    return status;
}
