#include "train/commands/prediction_lines.h"

#include "format/base/csv.h"
#include "format/base/json.h"
#include "format/base/path.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the likeliest classes ---- */

static void rank(const float *logits, int classes, int top, int *order) {
    for (int c = 0; c < classes; c++) order[c] = c;
    for (int i = 0; i < top; i++) {
        int best = i;
        for (int c = i + 1; c < classes; c++) {
            const float one = logits[order[c]], other = logits[order[best]];
            if (one > other || (one == other && order[c] < order[best])) best = c;
        }
        const int kept = order[i];
        order[i] = order[best];
        order[best] = kept;
    }
}

bool ff_predicted_top(const float *logits, int classes, const ff_field *names, int top, int *order,
                      ff_predicted_class *found) {
    float largest = logits[0];
    double sum = 0;
    for (int c = 0; c < classes; c++) largest = fmaxf(largest, logits[c]);
    for (int c = 0; c < classes; c++) sum += (double)expf(logits[c] - largest);
    if (!isfinite(sum)) return false;
    rank(logits, classes, top, order);
    for (int i = 0; i < top; i++) {
        const int class = order[i];
        found[i] = (ff_predicted_class){
            .number = class,
            .name = (uint32_t) class < names->class_count ? names->class_name[class] : NULL,
            .probability = (float)((double)expf(logits[class] - largest) / sum)};
    }
    return true;
}

/* ---- lines ---- */

static bool is_csv(const char *path) {
    return !strcmp(ff_path_ending(path), ".csv");
}

ff_status ff_prediction_lines_check(const char *path, ff_error *error) {
    if (!path || is_csv(path) || !strcmp(ff_path_ending(path), ".jsonl")) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "--output %s: wanted a name that ends in .csv or in .jsonl, which is the form",
                   path);
}

/* Writes the line, and releases it. */
static ff_status write_line(ff_prediction_lines *lines, ff_buffer *line, ff_error *error) {
    ff_status status = FF_OK;
    if (lines->file)
        status = ff_file_write(lines->file, line->bytes, line->length, error);
    else if (fwrite(line->bytes, 1, line->length, stdout) < line->length || ferror(stdout))
        status = ff_fail_errno(error, "cannot write to the standard output");
    ff_buffer_free(line);
    return status;
}

/* ---- CSV ---- */

/* Adds a cell to a line. */
static ff_status add_cell(ff_buffer *line, const char *text, ff_error *error) {
    if (line->length) FF_TRY(ff_buffer_add(line, ",", 1, error));
    return ff_csv_cell(line, text, strlen(text), error);
}

static ff_status add_class(ff_buffer *line, const ff_predicted_class *one, ff_error *error) {
    char number[32];
    snprintf(number, sizeof number, "%d", one->number);
    FF_TRY(add_cell(line, number, error));
    FF_TRY(add_cell(line, one->name ? one->name : "", error));
    snprintf(number, sizeof number, "%.9g", (double)one->probability);
    return add_cell(line, number, error);
}

static ff_status write_header(ff_prediction_lines *lines, ff_error *error) {
    ff_buffer line = {0};
    ff_status status;
    FF_TRY_DONE(ff_buffer_printf(&line, error, "key,class,name,probability"));
    for (int64_t i = 2; i <= lines->top; i++)
        FF_TRY_DONE(ff_buffer_printf(
            &line, error, ",class_%" PRId64 ",name_%" PRId64 ",probability_%" PRId64, i, i, i));
    FF_TRY_DONE(ff_buffer_printf(&line, error, ",error\r\n"));
    return write_line(lines, &line, error);
done:
    ff_buffer_free(&line);
    return status;
}

static ff_status write_csv(ff_prediction_lines *lines, const char *key,
                           const ff_predicted_class *classes, int64_t count, const char *reason,
                           ff_error *error) {
    json_t *text = ff_json_key(key, strlen(key));
    ff_buffer line = {0};
    ff_status status;
    if (!text) return ff_fail(error, FF_NO_MEMORY, "no memory for a prediction");
    FF_TRY_DONE(add_cell(&line, json_string_value(text), error));
    for (int64_t i = 0; i < count; i++) FF_TRY_DONE(add_class(&line, &classes[i], error));
    for (int64_t i = count; i < lines->top; i++) FF_TRY_DONE(ff_buffer_add(&line, ",,,", 3, error));
    FF_TRY_DONE(add_cell(&line, reason, error));
    FF_TRY_DONE(ff_buffer_add(&line, "\r\n", 2, error));
    status = write_line(lines, &line, error);
done:
    ff_buffer_free(&line);
    json_decref(text);
    return status;
}

/* ---- JSON ---- */

/* Writes the object as a line, and releases it. */
static ff_status write_json(ff_prediction_lines *lines, json_t *object, ff_error *error) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    ff_buffer line = {0};
    json_decref(object);
    if (!text) return ff_fail(error, FF_NO_MEMORY, "no memory for a prediction");
    const ff_status status = ff_buffer_printf(&line, error, "%s\n", text);
    free(text);
    return status == FF_OK ? write_line(lines, &line, error) : status;
}

static json_t *class_object(const ff_predicted_class *one) {
    return json_pack("{s:i, s:o, s:o}", "class", one->number, "name", ff_json_text(one->name),
                     "probability", ff_json_number((double)one->probability));
}

static json_t *sample_object(const char *key, const ff_predicted_class *classes, int64_t count) {
    json_t *list = json_array(), *best = class_object(&classes[0]);
    json_t *object = json_pack("{s:o}", "key", ff_json_key(key, strlen(key)));
    int failed = json_object_update(object, best);
    json_decref(best);
    for (int64_t i = 0; i < count; i++)
        failed |= json_array_append_new(list, class_object(&classes[i]));
    failed |= json_object_set_new(object, "top", list);
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

/* ---- both ---- */

ff_status ff_prediction_lines_open(ff_prediction_lines *lines, const char *path, int64_t top,
                                   ff_error *error) {
    *lines = (ff_prediction_lines){.top = top};
    if (!path) return FF_OK;
    lines->csv = is_csv(path);
    FF_TRY(ff_file_replace(&lines->file, path, error));
    return lines->csv ? write_header(lines, error) : FF_OK;
}

ff_status ff_prediction_lines_add(ff_prediction_lines *lines, const char *key,
                                  const ff_predicted_class *classes, int64_t count,
                                  ff_error *error) {
    if (lines->csv) return write_csv(lines, key, classes, count, "", error);
    return write_json(lines, sample_object(key, classes, count), error);
}

ff_status ff_prediction_lines_reason(ff_prediction_lines *lines, const char *key,
                                     const char *reason, ff_error *error) {
    if (lines->csv) return write_csv(lines, key, NULL, 0, reason, error);
    return write_json(lines,
                      json_pack("{s:o, s:o}", "key", ff_json_key(key, strlen(key)), "error",
                                ff_json_text(reason)),
                      error);
}

ff_status ff_prediction_lines_close(ff_prediction_lines *lines, bool keep, ff_error *error) {
    if (keep && lines->file) return ff_file_commit(&lines->file, error);
    ff_file_discard(&lines->file);
    return FF_OK;
}
