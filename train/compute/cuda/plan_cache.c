#include "train/compute/cuda/plan_cache.h"

#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/disk/checksum.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Far more than any plan: plans compiled at run time have 0.3 MB. */
enum { MOST_BYTES = 32 << 20 };
enum { MOST_NS = 999999999 };

static const char first_line[] = "ffpack plan 2\n";

static const struct {
    const char *name;
    size_t offset; /* of a bool in ff_library_engine */
} flags[] = {
    {"tensor-cores", offsetof(ff_library_engine, tensor_cores)},
    {"runtime-compiled", offsetof(ff_library_engine, runtime_compiled)},
    {"deterministic", offsetof(ff_library_engine, deterministic)},
    {"timed", offsetof(ff_library_engine, timed)},
};
enum { FLAGS = sizeof flags / sizeof *flags };

void ff_plan_entry_release(ff_plan_entry *entry) {
    free(entry->json);
    *entry = (ff_plan_entry){0};
}

ff_status ff_plan_entry_write(ff_buffer *file, const char *key, const ff_plan_entry *entry,
                              ff_error *error) {
    ff_buffer body = {0};
    const unsigned long long ns = entry->engine.ns > MOST_NS ? MOST_NS : entry->engine.ns;
    ff_status status;
    FF_TRY_DONE(ff_buffer_printf(&body, error, "key %zu\njson %zu\nfound %d\nns %llu\nflags",
                                 strlen(key), strlen(entry->json), entry->engine.found, ns));
    bool any = false;
    for (int i = 0; i < FLAGS; i++) {
        if (!*((const bool *)((const char *)&entry->engine + flags[i].offset))) continue;
        FF_TRY_DONE(ff_buffer_printf(&body, error, " %s", flags[i].name));
        any = true;
    }
    FF_TRY_DONE(ff_buffer_printf(&body, error, "%s\nengine %s\n%s\n", any ? "" : " none",
                                 entry->engine.name, key));
    FF_TRY_DONE(ff_buffer_add(&body, entry->json, strlen(entry->json), error));
    FF_TRY_DONE(ff_buffer_add(&body, "\n", 1, error));
    FF_TRY_DONE(ff_buffer_printf(file, error, "%schecksum %016llx\n", first_line,
                                 (unsigned long long)ff_checksum(body.bytes, body.length)));
    FF_TRY_DONE(ff_buffer_add(file, body.bytes, body.length, error));
done:
    ff_buffer_free(&body);
    return status;
}

/* ---- reading ---- */

typedef struct cursor {
    const char *at, *end;
} cursor;

/* The value of the line that begins with `name` and a space; NULL if the line does not, or is not
 * text. */
static const char *take_line(cursor *c, const char *name, size_t *length) {
    size_t prefix = strlen(name), left = (size_t)(c->end - c->at);
    const char *line_end = left ? memchr(c->at, '\n', left) : NULL;
    if (!line_end || (size_t)(line_end - c->at) <= prefix || memcmp(c->at, name, prefix) != 0 ||
        c->at[prefix] != ' ')
        return NULL;
    const char *value = c->at + prefix + 1;
    *length = (size_t)(line_end - value);
    for (size_t i = 0; i < *length; i++)
        if (value[i] < 0x20 || value[i] > 0x7e) return NULL;
    c->at = line_end + 1;
    return value;
}

static bool take_number(cursor *c, const char *name, uint32_t most, uint32_t *number) {
    size_t length;
    const char *value = take_line(c, name, &length);
    if (!value || length < 1 || length > 9) return false;
    *number = 0;
    for (size_t i = 0; i < length; i++) {
        if (value[i] < '0' || value[i] > '9') return false;
        *number = *number * 10 + (uint32_t)(value[i] - '0');
    }
    return *number <= most;
}

static bool take_flags(cursor *c, ff_library_engine *engine) {
    size_t length;
    const char *value = take_line(c, "flags", &length);
    if (!value) return false;
    if (length == 4 && !memcmp(value, "none", 4)) return true;
    for (const char *end = value + length; value <= end;) {
        const char *space = memchr(value, ' ', (size_t)(end - value));
        size_t word = (size_t)((space ? space : end) - value);
        int i = 0;
        while (i < FLAGS &&
               (strlen(flags[i].name) != word || memcmp(value, flags[i].name, word) != 0))
            i++;
        if (i == FLAGS) return false;
        *((bool *)((char *)engine + flags[i].offset)) = true;
        value += word + 1;
    }
    return true;
}

static bool take_engine(cursor *c, ff_library_engine *engine) {
    size_t length;
    const char *value = take_line(c, "engine", &length);
    if (!value || length < 1 || length >= sizeof engine->name) return false;
    memcpy(engine->name, value, length);
    engine->name[length] = '\0';
    return true;
}

static bool take_checksum(cursor *c) {
    size_t length;
    char right[17];
    const char *value = take_line(c, "checksum", &length);
    if (!value || length != 16) return false;
    snprintf(right, sizeof right, "%016llx",
             (unsigned long long)ff_checksum(c->at, (size_t)(c->end - c->at)));
    return !memcmp(value, right, 16);
}

ff_status ff_plan_entry_parse(const void *bytes, size_t length, const char *key,
                              ff_plan_entry *entry, ff_error *error) {
    *entry = (ff_plan_entry){.engine.cached = true};
    cursor c = {bytes, (const char *)bytes + length};
    size_t first = strlen(first_line), key_length = strlen(key);
    if (length < first || memcmp(bytes, first_line, first) != 0)
        return ff_fail(error, FF_BAD_DATA, "is not a plan of this version of ffpack");
    c.at += first;
    uint32_t key_bytes, json_bytes, found, ns;
    if (!take_checksum(&c)) return ff_fail(error, FF_BAD_DATA, "the checksum does not match");
    if (!take_number(&c, "key", MOST_BYTES, &key_bytes) ||
        !take_number(&c, "json", MOST_BYTES, &json_bytes) ||
        !take_number(&c, "found", 1000, &found) || !take_number(&c, "ns", MOST_NS, &ns) ||
        !take_flags(&c, &entry->engine) || !take_engine(&c, &entry->engine) || json_bytes < 1 ||
        (uint64_t)(c.end - c.at) != (uint64_t)key_bytes + json_bytes + 2)
        return ff_fail(error, FF_BAD_DATA, "is broken");
    const char *json = c.at + key_bytes + 1;
    if (key_bytes != key_length || memcmp(c.at, key, key_length) != 0)
        return ff_fail(error, FF_BAD_DATA, "is the plan of another key");
    if (json[-1] != '\n' || json[json_bytes] != '\n' || memchr(json, '\0', json_bytes))
        return ff_fail(error, FF_BAD_DATA, "is broken");
    entry->engine.found = (int)found;
    entry->engine.ns = ns;
    return ff_copy_bytes(&entry->json, json, json_bytes, error);
}

/* ---- files ---- */

static ff_status path_of(char **path, const char *folder, const char *key, ff_error *error) {
    uint8_t id[16];
    char name[33];
    ff_id_of(id, key, strlen(key));
    ff_hex(name, id, sizeof id);
    return ff_format(path, error, "%s/%s.plan", folder, name);
}

ff_status ff_plan_cache_get(const char *folder, const char *key, ff_plan_entry *entry,
                            ff_error *error) {
    ff_buffer bytes = {0};
    char *path = NULL;
    ff_status status;
    *entry = (ff_plan_entry){0};
    FF_TRY_DONE(path_of(&path, folder, key, error));
    if (!ff_path_exists("%s", path) && (errno == ENOENT || errno == ENOTDIR)) goto done;
    FF_TRY_DONE(ff_read_whole(&bytes, path, MOST_BYTES, error));
    status = ff_plan_entry_parse(bytes.bytes, bytes.length, key, entry, error);
    if (status != FF_OK) status = ff_fail_within(error, status, "%s", path);
done:
    if (status != FF_OK) ff_plan_entry_release(entry);
    ff_buffer_free(&bytes);
    free(path);
    return status;
}

ff_status ff_plan_cache_put(const char *folder, const char *key, const ff_plan_entry *entry,
                            ff_error *error) {
    ff_buffer text = {0};
    ff_file *file = NULL;
    char *path = NULL;
    ff_status status;
    FF_TRY_DONE(ff_make_folders(folder, error));
    FF_TRY_DONE(path_of(&path, folder, key, error));
    FF_TRY_DONE(ff_plan_entry_write(&text, key, entry, error));
    /* Not synced: a file damaged by a crash has a wrong checksum, and is made again. */
    FF_TRY_DONE(ff_file_replace(&file, path, error));
    FF_TRY_DONE(ff_file_write(file, text.bytes, text.length, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
done:
    ff_file_discard(&file);
    ff_buffer_free(&text);
    free(path);
    return status;
}

ff_status ff_plan_cache_folder(char **folder, ff_error *error) {
    const char *own = getenv("FFPACK_PLAN_CACHE"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    *folder = NULL;
    if (own) return own[0] ? ff_copy_string(folder, own, error) : FF_OK;
    /* The XDG specification: relative paths are ignored. */
    if (cache && cache[0] == '/') return ff_format(folder, error, "%s/ffpack/plans", cache);
    if (home && home[0] == '/') return ff_format(folder, error, "%s/.cache/ffpack/plans", home);
    return FF_OK;
}
