/* The index.json of chunks. */
#include "format/base/path.h"
#include "format/base/read.h"
#include "tools/ffpack/source/chunks/chunks.h"

#include <inttypes.h>
#include <string.h>

static bool is_index_name(const char *name) {
    return !strcmp(name, "index.json");
}

const ff_shard_kind ff_chunks_kind = {
    .one = "index.json", .many = "files index.json", .is_name = is_index_name, .lists = true};

ff_status ff_chunks_read_index(const char *path, json_t **index, ff_error *error) {
    ff_buffer text = {0};
    json_error_t reason;
    *index = NULL;
    ff_status status = ff_read_whole(&text, path, FF_CHUNKS_INDEX_LIMIT, error);
    if (status == FF_OK) {
        *index = json_loadb(text.bytes, text.length, JSON_REJECT_DUPLICATES, &reason);
        if (!*index && json_error_code(&reason) == json_error_out_of_memory)
            status = ff_fail(error, FF_NO_MEMORY, "%s: not enough memory", path);
        else if (!*index)
            status = ff_fail(error, FF_BAD_DATA, "%s: is broken JSON at byte %d (%s)", path,
                             reason.position, reason.text);
    }
    ff_buffer_free(&text);
    return status;
}

bool ff_chunks_detect(const char *path, const unsigned char *head, bool (*is)(const json_t *index),
                      ff_error *error) {
    ff_shards shards;
    json_t *index;
    if (head && !is_index_name(ff_path_base(path))) return false;
    if (ff_shards_find(&shards, path, &ff_chunks_kind, NULL, error) != FF_OK) return false;
    const ff_status status = ff_chunks_read_index(ff_names_at(&shards.path, 0), &index, error);
    const bool found = status == FF_OK && is(index);
    json_decref(index);
    ff_shards_free(&shards);
    return found;
}

static ff_status wrong(const char *path, const char *key, const json_t *value, const char *wanted,
                       ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "%s: '%s' is %s, wanted %s", path, key,
                   value ? "something else" : "missing", wanted);
}

ff_status ff_chunks_text(const json_t *object, const char *path, const char *key, const char **text,
                         ff_error *error) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) return wrong(path, key, value, "a text", error);
    *text = json_string_value(value);
    return FF_OK;
}

ff_status ff_chunks_number(const json_t *object, const char *path, const char *key,
                           uint64_t *number, ff_error *error) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return wrong(path, key, value, "a whole number from 0 on", error);
    *number = (uint64_t)json_integer_value(value);
    return FF_OK;
}

ff_status ff_chunks_array(const json_t *object, const char *path, const char *key,
                          const json_t **array, ff_error *error) {
    *array = json_object_get(object, key);
    return json_is_array(*array) ? FF_OK : wrong(path, key, *array, "a list", error);
}

ff_status ff_chunks_file(const json_t *object, const char *path, const char *key, const char **name,
                         ff_error *error) {
    FF_TRY(ff_chunks_text(object, path, key, name, error));
    for (const char *at = *name; at; at = strchr(at, '/')) {
        if (at != *name) at++;
        const size_t bytes = strcspn(at, "/");
        if (bytes && (bytes != 2 || memcmp(at, "..", 2) != 0)) continue;
        return ff_fail(error, FF_BAD_DATA,
                       "%s: '%s' is '%.200s', wanted the name of a file in its folder", path, key,
                       *name);
    }
    return FF_OK;
}

ff_status ff_chunks_path(char **path, const char *index, const char *name, ff_error *error) {
    return ff_format(path, error, "%.*s%s", (int)(ff_path_base(index) - index), index, name);
}
