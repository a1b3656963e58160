#include "tools/ffinspect/facts/history.h"

#include "format/base/json.h"
#include "format/base/readable.h"
#include "format/reader/history.h"

#include <stdlib.h>
#include <string.h>

enum { WORD_LIMIT = 300, COMMAND_LIMIT = 8000 };

static ff_status add_word(ff_buffer *out, const json_t *line, const char *name, ff_error *error) {
    const char *word = json_string_value(json_object_get(line, name));
    return ff_readable(out, word, strlen(word), WORD_LIMIT, error);
}

/* "2026-11-26T18:19:19Z on host, ffpack 0.1.0, from /data/photos: ffpack photos -o packed" */
static ff_status add_line(ff_buffer *out, const json_t *line, ff_error *error) {
    ff_buffer command = {0};
    ff_status status;
    FF_TRY_DONE(add_word(out, line, "time", error));
    FF_TRY_DONE(ff_buffer_printf(out, error, " on "));
    FF_TRY_DONE(add_word(out, line, "host", error));
    FF_TRY_DONE(ff_buffer_printf(out, error, ", ffpack "));
    FF_TRY_DONE(add_word(out, line, "ffpack", error));
    if (json_object_get(line, "source")) {
        FF_TRY_DONE(ff_buffer_printf(out, error, ", from "));
        FF_TRY_DONE(add_word(out, line, "source", error));
    }
    FF_TRY_DONE(ff_buffer_printf(out, error, ": "));
    FF_TRY_DONE(ff_history_command_line(&command, line, error));
    FF_TRY_DONE(ff_readable(out, command.bytes, command.length, COMMAND_LIMIT, error));
    FF_TRY_DONE(ff_buffer_printf(out, error, "\n"));
done:
    ff_buffer_free(&command);
    return status;
}

ff_status ff_inspect_history(ff_buffer *out, const ff_dataset *dataset, ff_error *error) {
    json_t *lines = NULL;
    char *problem = NULL;
    ff_status status;
    FF_TRY_DONE(ff_history_read(&lines, &problem, ff_dataset_folder(dataset),
                                ff_dataset_id(dataset)->content, error));
    for (size_t i = 0; i < json_array_size(lines); i++)
        FF_TRY_DONE(add_line(out, json_array_get(lines, i), error));
    if (problem) FF_TRY_DONE(ff_buffer_printf(out, error, "%s\n", problem));
done:
    json_decref(lines);
    free(problem);
    return status;
}

ff_status ff_inspect_json_history(json_t *object, const ff_dataset *dataset, ff_error *error) {
    json_t *lines = NULL;
    char *problem = NULL;
    ff_status status = ff_history_read(&lines, &problem, ff_dataset_folder(dataset),
                                       ff_dataset_id(dataset)->content, error);
    if (status == FF_OK && (json_object_set(object, "history", lines) ||
                            json_object_set_new(object, "history_problem", ff_json_text(problem))))
        status = ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
    json_decref(lines);
    free(problem);
    return status;
}
