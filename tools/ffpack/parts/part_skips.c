#include "tools/ffpack/parts/part_skips.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/disk/generation.h"
#include "tools/ffpack/split/emptied.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_BYTES (UINT64_C(64) << 20)

static const char cure[] = "; merge --max-skip N|P% allows more";

static ff_status path_of(char **path, const char *part, ff_error *error) {
    return ff_format(path, error, "%.*s.skipped.json", (int)ff_path_length(part), part);
}

/* ---- of a part ------------------------------------------------------------------------------ */

/* The counts of each split, and whether anything was left out. */
static ff_status count_splits(const ff_run *run, json_t **splits, bool *any, ff_error *error) {
    *splits = json_array();
    *any = false;
    for (size_t i = 0; i < run->source->split_count; i++) {
        const ff_report_split *report = &run->report->split[i];
        json_t *counts;
        const ff_status status =
            ff_emptied_count(&counts, &run->source->split[i], &report->metadata, error);
        ff_json_append(splits, counts);
        FF_TRY(status);
        *any |= report->items != report->result.sample_count;
    }
    return FF_OK;
}

static ff_status save(const char *path, const json_t *file, ff_error *error) {
    char *text = file ? json_dumps(file, JSON_COMPACT) : NULL;
    ff_file *out = NULL;
    ff_status status;
    if (!text) return ff_fail(error, FF_NO_MEMORY, "not enough memory for %s", path);
    FF_TRY_DONE(ff_file_replace(&out, path, error));
    FF_TRY_DONE(ff_file_write(out, text, strlen(text), error));
    FF_TRY_DONE(ff_file_commit(&out, error));
done:
    ff_file_discard(&out);
    free(text);
    return status;
}

ff_status ff_part_skips_write(const ff_run *run, ff_error *error) {
    const ff_max_skip *max = &run->settings->max_skip;
    json_t *splits = NULL, *file = NULL;
    char *path;
    bool any;
    ff_status status;
    FF_TRY(path_of(&path, run->settings->output, error));
    FF_TRY_DONE(count_splits(run, &splits, &any, error));
    if (any) {
        file = json_pack("{s:o, s:b, s:O}", "max_skip", ff_json_text(max->text), "given",
                         (int)max->given, "splits", splits);
        status = save(path, file, error);
    } else if (unlink(path) && errno != ENOENT) {
        status = ff_fail_errno(error, "%s: cannot remove", path);
    }
done:
    json_decref(file);
    json_decref(splits);
    free(path);
    return status;
}

void ff_part_skips_forget(const ff_run *run) {
    char *path;
    if (path_of(&path, run->settings->output, NULL) != FF_OK) return;
    (void)unlink(path);
    free(path);
}

/* ---- of a merge ----------------------------------------------------------------------------- */

/* *file = NULL if there is none. */
static ff_status read_file(const ff_piece *piece, json_t **file, ff_error *error) {
    ff_buffer text = {0};
    char *path;
    *file = NULL;
    FF_TRY(path_of(&path, piece->root, error));
    ff_status status = FF_OK;
    if (ff_path_exists("%s", path)) {
        FF_TRY_DONE(ff_read_whole(&text, path, LIMIT_BYTES, error));
        *file = json_loadb(text.bytes, text.length, JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_string(json_object_get(*file, "max_skip")))
            status = ff_fail(error, FF_BAD_DATA, "%s: is broken; pack --part %u/%u again", path,
                             piece->part.number, piece->part.count);
    }
done:
    ff_buffer_free(&text);
    free(path);
    return status;
}

static const char *allowed(const json_t *file) {
    return json_string_value(json_object_get(file, "max_skip"));
}

static bool same(const json_t *one, const json_t *other) {
    return json_equal(json_object_get(one, "max_skip"), json_object_get(other, "max_skip"));
}

/* Adds the piece's record; without --max-skip all records must be equal. */
static ff_status take(ff_part_skips *skips, const ff_piece *piece, const ff_piece *first,
                      const ff_merge_options *options, ff_error *error) {
    json_t *file;
    ff_status status = FF_OK;
    FF_TRY(read_file(piece, &file, error));
    if (!file)
        ff_notice(&options->notices,
                  "%s.skipped.json is missing, so it is not checked whether too much was left out",
                  piece->root);
    else if (!skips->file)
        skips->file = json_incref(file);
    else if (!options->max_skip && !same(file, skips->file))
        status = ff_fail(error, FF_USAGE,
                         "%s and %s were packed with --max-skip %s and %s; merge --max-skip N|P%% "
                         "sets what all of them may leave out",
                         first->root, piece->root, allowed(skips->file), allowed(file));
    json_decref(file);
    return status;
}

static ff_status say_cure(ff_status status, ff_error *error) {
    const size_t length = status == FF_BAD_DATA && error ? strlen(error->message) : 0;
    if (length) snprintf(error->message + length, sizeof error->message - length, "%s", cure);
    return status;
}

ff_status ff_part_skips_check(ff_part_skips *skips, const ff_piece *piece, size_t count,
                              const ff_merge_options *options, ff_error *error) {
    const ff_piece *first = NULL;
    ff_metadata metadata;
    uint64_t left_out = 0;
    for (size_t i = 0; i < count; i++) {
        left_out += piece[i].left_out;
        if (!piece[i].left_out) continue;
        if (!first) first = &piece[i];
        FF_TRY(take(skips, &piece[i], first, options, error));
    }
    if (!skips->file && !options->max_skip) return FF_OK;
    const bool given = json_is_true(json_object_get(skips->file, "given"));
    FF_TRY(ff_max_skip_parse(&skips->max,
                             options->max_skip ? options->max_skip
                             : given           ? allowed(skips->file)
                                               : NULL,
                             error));
    skips->classes = json_array_get(json_object_get(skips->file, "splits"), piece[0].part.split);
    FF_TRY(ff_metadata_read(&metadata, piece[0].text.bytes, piece[0].text.length, error));
    const uint64_t items = metadata.items - ff_metadata_first_item(&metadata);
    ff_metadata_free(&metadata);
    return say_cure(ff_max_skip_check(&skips->max, piece[0].split, left_out, items, error), error);
}

ff_status ff_part_skips_check_classes(const ff_part_skips *skips, const char *folder,
                                      const ff_notices *notices, ff_error *error) {
    ff_error lost = {0};
    if (!skips->classes) return FF_OK;
    const ff_status status = ff_emptied_check(skips->classes, folder, &lost);
    if (status == FF_BAD_DATA && skips->max.given) {
        ff_notice(notices, "%s", lost.message);
        return FF_OK;
    }
    if (status != FF_OK && error) *error = lost;
    return say_cure(status, error);
}

void ff_part_skips_release(ff_part_skips *skips) {
    json_decref(skips->file);
    *skips = (ff_part_skips){0};
}
