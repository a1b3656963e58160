#include "train/report/page/run_log.h"

#include "format/base/path.h"
#include "format/base/read.h"
#include "train/checkpoint/run_folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_BYTES (UINT64_C(1) << 30)

double ff_run_log_number(const json_t *event, const char *key) {
    const json_t *value = json_object_get(event, key);
    if (json_is_number(value)) return json_number_value(value);
    const char *text = json_string_value(value);
    if (!text) return NAN;
    return strcmp(text, "Infinity") == 0    ? INFINITY
           : strcmp(text, "-Infinity") == 0 ? -INFINITY
                                            : NAN;
}

const char *ff_run_log_text(const json_t *event, const char *key) {
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

/* Reads a file of the run that may be missing. */
static ff_status read_part(ff_buffer *part, const char *folder, const char *name, ff_error *error) {
    char *path;
    FF_TRY(ff_path_join(&path, folder, name, error));
    const ff_status status =
        ff_path_exists("%s", path) ? ff_read_whole(part, path, MOST_BYTES, error) : FF_OK;
    free(path);
    return status;
}

static void replace(json_t **old, json_t *new) {
    json_decref(*old);
    *old = new;
}

/* An epoch's line replaces the lines of the same and of later epochs: the run was resumed, or
 * another run was appended to the same file. */
static bool add_epoch(ff_run_log *run, json_t *event) {
    const double epoch = ff_run_log_number(event, "epoch");
    size_t count = json_array_size(run->epochs);
    while (count && !(ff_run_log_at(run, count - 1, "epoch") < epoch))
        json_array_remove(run->epochs, --count);
    return json_array_append(run->epochs, event) == 0;
}

/* Begins a session of the run: the time of earlier sessions counts; epochs that the session left do
 * not. */
static void begin_session(ff_run_log *run, json_t *event) {
    const double first = ff_run_log_number(event, "first_step");
    const double epoch = ff_run_log_number(event, "steps") / ff_run_log_number(event, "epochs");
    const double seconds = ff_run_log_number(run->end, "seconds");
    size_t count = json_array_size(run->epochs);
    run->seconds_before += isfinite(seconds) ? seconds : 0;
    if (first == 0) run->seconds_before = 0;
    while (first > 0 && count && ff_run_log_at(run, count - 1, "epoch") * epoch > first)
        json_array_remove(run->epochs, --count);
    replace(&run->start, json_incref(event));
    replace(&run->end, NULL);
}

static ff_status add_event(void *context, json_t *event, ff_error *error) {
    ff_run_log *run = context;
    const char *kind = ff_run_log_text(event, "event");
    json_t *text = json_object_get(event, "text");
    bool good = true;
    if (strcmp(kind, "epoch") == 0) {
        good = add_epoch(run, event);
    } else if (strcmp(kind, "note") == 0) {
        good = !json_is_string(text) || json_array_append(run->notes, text) == 0;
    } else if (strcmp(kind, "start") == 0) {
        begin_session(run, event);
        good = json_array_clear(run->notes) == 0;
    } else if (strcmp(kind, "end") == 0) {
        replace(&run->end, json_incref(event));
    }
    return good ? FF_OK : ff_fail(error, FF_NO_MEMORY, "not enough memory for the log of a run");
}

static ff_status read_log(ff_run_log *run, const char *path, ff_error *error) {
    run->epochs = json_array();
    run->notes = json_array();
    if (!run->epochs || !run->notes)
        return ff_fail(error, FF_NO_MEMORY, "%s: not enough memory for the log", path);
    FF_TRY(ff_json_lines_read(path, add_event, run, &run->unreadable, error));
    if (!run->start && !json_array_size(run->epochs))
        return ff_fail(error, FF_BAD_DATA,
                       "%s: has no line of a run; fftrain --log-json FILE writes them", path);
    return FF_OK;
}

static ff_status read_evaluation(ff_run_log *run, const char *folder, ff_error *error) {
    ff_buffer text = {0};
    json_error_t found;
    ff_status status = read_part(&text, folder, "evaluation.json", error);
    if (status == FF_OK && text.length) {
        run->evaluation = json_loadb(text.bytes, text.length, JSON_REJECT_DUPLICATES, &found);
        if (!run->evaluation)
            status = ff_fail(error, FF_BAD_DATA, "%s/evaluation.json: %s at byte %d", folder,
                             found.text, found.position);
    }
    ff_buffer_free(&text);
    return status;
}

const char *ff_run_log_setting(const ff_buffer *recipe, const char *name, size_t *length) {
    const size_t named = strcspn(name, " ");
    const char *at = recipe->bytes;
    while (at && *at) {
        const size_t whole = strcspn(at, "\n");
        if (whole > named + 3 && !strncmp(at, name, named) && !strncmp(at + named, " = ", 3)) {
            *length = whole - named - 3;
            return at + named + 3;
        }
        at += whole + (at[whole] == '\n');
    }
    return NULL;
}

static ff_status read_run(ff_run_log *run, const char *path, bool brief, ff_error *error) {
    struct stat info;
    char *log = NULL;
    ff_status status;
    *run = (ff_run_log){.unended = "not ended"};
    FF_TRY(ff_copy_bytes(&run->name, path, ff_path_length(path), error));
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return read_log(run, path, error);
    const bool locked = ff_run_folder_is_locked(path); /* a run may end, or begin, meanwhile */
    FF_TRY_DONE(ff_path_join(&log, path, "log.jsonl", error));
    FF_TRY_DONE(read_log(run, log, error));
    run->unended = locked || ff_run_folder_is_locked(path) ? "running" : "killed";
    FF_TRY_DONE(read_part(&run->recipe, path, "recipe.txt", error));
    if (brief) goto done;
    FF_TRY_DONE(read_evaluation(run, path, error));
    FF_TRY_DONE(read_part(&run->worst, path, "worst.png", error));
    FF_TRY_DONE(read_part(&run->inputs, path, "inputs.png", error));
done:
    free(log);
    return status;
}

ff_status ff_run_log_read(ff_run_log *run, const char *path, ff_error *error) {
    return read_run(run, path, false, error);
}

ff_status ff_run_log_read_brief(ff_run_log *run, const char *path, ff_error *error) {
    return read_run(run, path, true, error);
}

void ff_run_log_free(ff_run_log *run) {
    free(run->name);
    json_decref(run->start);
    json_decref(run->end);
    json_decref(run->epochs);
    json_decref(run->notes);
    json_decref(run->evaluation);
    ff_buffer_free(&run->worst);
    ff_buffer_free(&run->inputs);
    ff_buffer_free(&run->recipe);
    *run = (ff_run_log){0};
}
