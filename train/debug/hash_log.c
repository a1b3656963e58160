#include "train/debug/hash_log.h"

#include "format/base/memory.h"
#include "format/base/read.h"

#include <stdbool.h>
#include <string.h>

#define MOST_BYTES (UINT64_C(1) << 30)

/* Whether the value is an array of strings, with `count` of them unless `count` is negative. */
static bool is_list(const json_t *list, long count) {
    if (!json_is_array(list)) return false;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i))) return false;
    return count < 0 || json_array_size(list) == (size_t)count;
}

static bool is_names(const json_t *line) {
    return is_list(json_object_get(line, "parameters"), -1) &&
           is_list(json_object_get(line, "outputs"), -1);
}

/* Whether the line continues the log. */
static bool follows(const ff_hash_log *log, const json_t *line) {
    static const struct {
        const char *key, *names;
        bool needed;
    } lists[] = {{"parameters", "parameters", true},
                 {"gradients", "parameters", false},
                 {"outputs", "outputs", false}};
    static const char *const texts[] = {"images", "labels"};
    const json_t *step = json_object_get(line, "step");
    const size_t before = json_array_size(log->lines);
    if (!json_is_integer(step) || json_integer_value(step) < 0) return false;
    if (before && (uint64_t)json_integer_value(step) <= ff_hash_log_step(log, before - 1))
        return false;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_t *list = json_object_get(line, lists[i].key);
        const size_t count = json_array_size(json_object_get(log->names, lists[i].names));
        if ((list || lists[i].needed) && !is_list(list, (long)count)) return false;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const json_t *text = json_object_get(line, texts[i]);
        if (text && !json_is_string(text)) return false;
    }
    const json_t *loss = json_object_get(line, "loss");
    return !loss || json_is_number(loss);
}

/* Adds a line; *more: the line belongs to the log. */
static ff_status add_line(ff_hash_log *log, const char *text, size_t length, uint64_t last,
                          bool *more, ff_error *error) {
    json_t *line = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    const bool fits = log->names ? follows(log, line) : is_names(line);
    bool kept = true;
    *more = fits;
    if (fits && !log->names)
        log->names = json_incref(line);
    else if (fits && (uint64_t)json_integer_value(json_object_get(line, "step")) > last)
        *more = false;
    else if (fits)
        kept = json_array_append(log->lines, line) == 0;
    json_decref(line);
    if (!kept) return ff_fail(error, FF_NO_MEMORY, "not enough memory for the hashes of a run");
    return fits ? FF_OK : ff_fail(error, FF_BAD_DATA, "these are not hashes of a run");
}

ff_status ff_hash_log_read(ff_hash_log *log, const char *path, uint64_t last, ff_error *error) {
    ff_buffer all = {0};
    ff_status status;
    size_t number = 1;
    bool more = true;
    *log = (ff_hash_log){.lines = json_array()};
    FF_TRY_DONE(ff_read_whole(&all, path, MOST_BYTES, error));
    for (const char *end; more; number++) {
        const char *line = all.bytes + log->end;
        if (!(end = memchr(line, '\n', all.length - log->end))) break;
        status = add_line(log, line, (size_t)(end - line), last, &more, error);
        if (status != FF_OK) {
            status = ff_fail_within(error, status, "%s: line %zu", path, number);
            goto done;
        }
        if (more) log->end += (uint64_t)(end - line) + 1;
    }
    if (!log->names)
        status =
            ff_fail(error, FF_BAD_DATA, "%s: has no hashes of a run, not one whole line", path);
done:
    ff_buffer_free(&all);
    return status;
}

void ff_hash_log_free(ff_hash_log *log) {
    json_decref(log->names);
    json_decref(log->lines);
    *log = (ff_hash_log){0};
}
