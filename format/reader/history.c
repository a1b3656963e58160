#include "format/reader/history.h"

#include "format/base/file.h"
#include "format/base/json.h"
#include "format/base/path.h"
#include "format/base/quote.h"
#include "format/base/read.h"
#include "format/cli/options.h"
#include "format/cli/say.h"
#include "format/reader/reader.h"
#include "format/storage/storage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static ff_status no_memory(ff_error *error) {
    return ff_fail(error, FF_NO_MEMORY, "not enough memory for the history");
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Appends the folder's history to `text`; *there = whether the folder has one. ffpack never wrote a
 * pipe or a folder of this name. */
static ff_status load(ff_buffer *text, const char *directory, bool *there, ff_error *error) {
    char *path;
    struct stat info;
    FF_TRY(ff_path_join(&path, directory, FF_HISTORY_NAME, error));
    ff_buffer whole = {0};
    ff_status status;
    *there = stat(path, &info) == 0;
    if (!*there && errno != ENOENT)
        status = ff_fail_errno(error, "%s: cannot stat", path);
    else if (*there && !S_ISREG(info.st_mode))
        status = ff_fail(error, FF_BAD_DATA, "%s: is not a regular file", path);
    else
        status = *there ? ff_read_whole(&whole, path, FF_HISTORY_LIMIT_BYTES, error) : FF_OK;
    if (status == FF_OK && whole.length)
        status = ff_buffer_add(text, whole.bytes, whole.length, error);
    if (status == FF_OK && whole.length && whole.bytes[whole.length - 1] != '\n')
        status = ff_buffer_add(text, "\n", 1, error);
    ff_buffer_free(&whole);
    free(path);
    return status;
}

static bool is_sound(const json_t *line) {
    static const char *const names[] = {"ffpack", "command", "time", "host", "directory"};
    const json_t *arguments = json_object_get(line, "arguments");
    const json_t *source = json_object_get(line, "source");
    bool sound = json_is_array(arguments) && (!source || json_is_string(source));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        sound &= json_is_string(json_object_get(line, names[i]));
    for (size_t i = 0; sound && i < json_array_size(arguments); i++)
        sound = json_is_string(json_array_get(arguments, i));
    return sound;
}

/* *bad = the number of the first unsound line, from 1; 0 = all lines are sound. */
static ff_status parse(json_t *lines, const ff_buffer *text, size_t *bad, size_t *bad_count,
                       ff_error *error) {
    const char *at = text->bytes, *end = text->length ? at + text->length : at;
    *bad = *bad_count = 0;
    for (size_t number = 1; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((stop ? stop : end) - at);
        json_t *line = json_loadb(at, length, JSON_REJECT_DUPLICATES, NULL);
        const bool sound = is_sound(line);
        if (sound && json_array_append(lines, line)) {
            json_decref(line);
            return no_memory(error);
        }
        json_decref(line);
        if (!sound && !(*bad_count)++) *bad = number;
        at += length + 1;
    }
    return FF_OK;
}

static bool is_of(const json_t *line, const uint8_t content_id[16]) {
    json_t *id = ff_json_id(content_id);
    const bool same = id && json_equal(json_object_get(line, "content"), id);
    json_decref(id);
    return same;
}

/* Describes what is wrong with a history that could be read. */
static ff_status judge(char **problem, const json_t *lines, size_t bad, size_t bad_count,
                       const uint8_t content_id[16], ff_error *error) {
    const size_t count = json_array_size(lines);
    if (bad_count)
        return ff_format(problem, error,
                         FF_HISTORY_NAME ": %s not as ffpack writes them; the first is line %zu",
                         ff_say_count(bad_count, "line is", "lines are").text, bad);
    if (!count) return ff_copy_string(problem, FF_HISTORY_NAME ": is empty", error);
    if (is_of(json_array_get(lines, count - 1), content_id)) return FF_OK;
    return ff_copy_string(problem,
                          FF_HISTORY_NAME ": the last line is of other samples; "
                                          "what changed them since is not recorded",
                          error);
}

ff_status ff_history_read(json_t **lines, char **problem, const char *directory,
                          const uint8_t content_id[16], ff_error *error) {
    ff_buffer text = {0};
    ff_error unread = {0};
    bool there;
    size_t bad = 0, bad_count = 0;
    *problem = NULL;
    *lines = json_array();
    if (!*lines) return no_memory(error);
    const ff_status loaded = load(&text, directory, &there, &unread);
    ff_status status = FF_OK;
    if (loaded == FF_OK && there) status = parse(*lines, &text, &bad, &bad_count, error);
    if (loaded != FF_OK)
        status = ff_copy_string(problem, unread.message, error);
    else if (!there)
        status = ff_copy_string(problem, "not recorded: there is no " FF_HISTORY_NAME, error);
    else if (status == FF_OK)
        status = judge(problem, *lines, bad, bad_count, content_id, error);
    ff_buffer_free(&text);
    return status;
}

ff_status ff_history_command_line(ff_buffer *out, const json_t *line, ff_error *error) {
    const json_t *arguments = json_object_get(line, "arguments");
    for (size_t i = 0; i < json_array_size(arguments); i++) {
        if (i) FF_TRY(ff_buffer_add(out, " ", 1, error));
        FF_TRY(ff_shell_quote(out, json_string_value(json_array_get(arguments, i)), error));
    }
    return FF_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The absolute path of `source`; a source that is not a file's path, such as a pattern, is appended
 * to the folder. URLs and the standard input stay. */
static ff_status resolve(char **absolute, const char *source, const char *folder, ff_error *error) {
    if (!strcmp(source, "-") || ff_storage_is_url(source))
        return ff_copy_bytes(absolute, source, ff_storage_shown_bytes(source), error);
    *absolute = realpath(source, NULL);
    if (*absolute) return FF_OK;
    if (*source == '/') return ff_copy_string(absolute, source, error);
    return ff_path_join(absolute, folder, source, error);
}

/* A web URL's query is cut: it may hold a signature. */
static json_t *shown(const char *argument) {
    char *text;
    const size_t bytes = ff_storage_shown_bytes(argument);
    if (!argument[bytes]) return ff_json_text(argument);
    if (ff_format(&text, NULL, "%.*s?...", (int)bytes, argument) != FF_OK) return NULL;
    json_t *json = ff_json_text(text);
    free(text);
    return json;
}

static json_t *arguments_array(const ff_history_command *command) {
    json_t *array = json_array();
    ff_json_append(&array, json_string("ffpack"));
    if (strcmp(command->name, "pack") != 0) ff_json_append(&array, json_string(command->name));
    for (int i = 1; array && i < command->argc; i++)
        ff_json_append(&array, shown(command->argv[i]));
    return array;
}

/* The content id of the split; null for a part, which has no index. */
static ff_status content_of(json_t **content, const char *directory, ff_error *error) {
    ff_dataset *dataset;
    *content = NULL;
    if (!ff_path_exists("%s/" FF_INDEX_NAME, directory)) return FF_OK;
    FF_TRY(ff_dataset_open(&dataset, directory, FF_VERIFY_OFF, error));
    *content = ff_json_id(ff_dataset_id(dataset)->content);
    ff_dataset_close(&dataset);
    return *content ? FF_OK : no_memory(error);
}

/* Adds this command's line. `folder`: the working directory. */
static ff_status add_line(ff_buffer *text, const char *directory, const char *folder,
                          const ff_history_command *command, const char *source, ff_error *error) {
    char when[32] = "", host[256] = "";
    char *absolute = NULL, *dumped = NULL;
    json_t *line = NULL, *content = NULL;
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    (void)!gethostname(host, sizeof host - 1);
    ff_status status;
    if (source) FF_TRY_DONE(resolve(&absolute, source, folder, error));
    FF_TRY_DONE(content_of(&content, directory, error));
    line = json_pack("{s:s, s:s, s:s, s:o, s:o*, s:o, s:o, s:o*}", "ffpack", ff_version, "command",
                     command->name, "time", when, "host", ff_json_text(host), "source",
                     absolute ? ff_json_text(absolute) : NULL, "directory", ff_json_text(folder),
                     "arguments", arguments_array(command), "content", content);
    dumped = line ? json_dumps(line, JSON_COMPACT) : NULL;
    status = dumped ? ff_buffer_printf(text, error, "%s\n", dumped) : no_memory(error);
done:
    json_decref(line);
    free(dumped);
    free(absolute);
    return status;
}

static ff_status save(ff_buffer *text, const char *directory, const ff_history_command *command,
                      const char *source, ff_error *error) {
    char *folder = getcwd(NULL, 0);
    ff_status status = add_line(text, directory, folder ? folder : "", command, source, error);
    free(folder);
    return status == FF_OK ? ff_file_save(directory, FF_HISTORY_NAME, text, error) : status;
}

ff_status ff_history_begin(const char *directory, const ff_history_command *command,
                           const char *source, const char *const *before, size_t count,
                           ff_error *error) {
    ff_buffer text = {0};
    if (command->none) return FF_OK;
    ff_status status;
    for (size_t i = 0; i < count; i++) {
        bool there;
        const size_t length = text.length;
        status = load(&text, before[i], &there, error);
        if (status == FF_NO_MEMORY) goto done;
        if (status != FF_OK) text.length = length;
    }
    FF_TRY_DONE(save(&text, directory, command, source, error));
done:
    ff_buffer_free(&text);
    return status;
}

ff_status ff_history_add(const char *directory, const ff_history_command *command,
                         const char *source, ff_error *error) {
    ff_buffer text = {0};
    bool there;
    if (command->none) return FF_OK;
    ff_status status;
    FF_TRY_DONE(load(&text, directory, &there, error));
    FF_TRY_DONE(save(&text, directory, command, source, error));
done:
    ff_buffer_free(&text);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "the history was not added to");
}
