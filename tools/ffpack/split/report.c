#include "tools/ffpack/split/report.h"

#include "format/base/json.h"
#include "format/cli/say.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORTH_SAMPLING = 100000 };

ff_status ff_report_add_split(ff_report *report, ff_report_split **split, ff_error *error) {
    FF_TRY(ff_grow(&report->split, report->split_count, sizeof *report->split, "a report", error));
    *split = &report->split[report->split_count++];
    **split = (ff_report_split){0};
    return FF_OK;
}

bool ff_report_lost_too_much(const ff_report *report) {
    for (size_t i = 0; i < report->split_count; i++)
        if (report->split[i].lost_too_much) return true;
    return false;
}

void ff_report_free(ff_report *report) {
    for (size_t i = 0; i < report->split_count; i++) {
        free(report->split[i].directory);
        ff_metadata_free(&report->split[i].metadata);
    }
    free(report->split);
    free(report->source);
    free(report->output);
    free(report->built_in);
    free(report->statistics_origin);
    free(report->skipped_path);
    free(report->split_rule);
    ff_left_out_free(&report->left_out);
    ff_names_free(&report->notes);
    *report = (ff_report){0};
}

static uint64_t skipped_of(const ff_report_split *split) {
    return split->items - (split->result.sample_count - split->earlier);
}

void ff_notice(const ff_notices *notices, const char *format, ...) {
    char *sentence;
    if (!notices->tell) return;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&sentence, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    notices->tell(notices->context, sentence);
    free(sentence);
}

/* ---- for people ---------------------------------------------------------------------------- */

/* Whether sizes are upper bounds: zstd saves nothing, all samples as large as allowed. */
static bool is_bound(const ff_metadata *metadata) {
    return metadata->compression != FF_COMPRESSION_NONE || metadata->variable_size;
}

static void print_split(const ff_report *report, const ff_report_split *split, FILE *out) {
    const ff_metadata *metadata = &split->metadata;
    fprintf(out, "%s%s%s", metadata->split, *metadata->split ? ": " : "",
            ff_say_count(split->result.sample_count, "item", "items").text);
    for (size_t i = 0; i < metadata->field_count; i++)
        if (metadata->field[i].class_count)
            fprintf(out, ", %s (%s)",
                    ff_say_count(metadata->field[i].class_count, "class", "classes").text,
                    metadata->field[i].name);
    fprintf(out, ", %s %s %s%ux%ux%u", ff_dtype_name(metadata->dtype),
            ff_layout_name(metadata->layout), metadata->variable_size ? "up to " : "",
            metadata->channels, metadata->height, metadata->width);
    fprintf(out, ", %s, ", ff_say_count(split->result.shard_count, "shard", "shards").text);
    if (report->dry_run) fputs(is_bound(metadata) ? "at most " : "about ", out);
    fputs(ff_say_bytes(split->result.file_bytes).text, out);
    if (split->directory) fprintf(out, " in %s", split->directory);
    fputc('\n', out);
    if (split->continued)
        fprintf(out, "  %s there from the run that this one continued\n",
                ff_say_count(split->continued, "item was", "items were").text);
    if (skipped_of(split))
        fprintf(out, "  %s left out: %s\n",
                ff_say_count(skipped_of(split), "item was", "items were").text,
                report->skipped_path ? report->skipped_path : "see the messages");
    if (split->clipped)
        fprintf(out, "  %s greys above 255, which became 255 (white)\n",
                ff_say_count(split->clipped, "image has", "images have").text);
    if (split->turned)
        fprintf(out,
                report->exif ? "  %s turned upright by the EXIF orientation (--exif)\n"
                             : "  %s stored as in the file, with an EXIF orientation other than 1; "
                               "--exif turns them upright\n",
                ff_say_count(split->turned, "image is", "images are").text);
    if (split->not_finite)
        fprintf(out, "  %s values that are inf or NaN%s\n",
                ff_say_count(split->not_finite, "sample has", "samples have").text,
                metadata->dtype == FF_F16 ? "; f16 holds values up to 65504" : "");
    if (split->warnings)
        fprintf(out, "  %s odd or cut off: see the messages\n",
                ff_say_count(split->warnings, "image was", "images were").text);
}

/* Prints what listing the source found. */
static void print_listing(const ff_report *report, FILE *out) {
    for (size_t i = 0; i < report->notes.count; i++)
        fprintf(out, "%s\n", ff_names_at(&report->notes, i));
    for (size_t i = 0; i < report->left_out.count; i++) {
        char *text;
        if (ff_left_out_text(&report->left_out.kind[i], &text, NULL) != FF_OK) continue;
        fprintf(out, "left out: %s\n", text);
        free(text);
    }
}

static void print_floats(FILE *out, const char *name, const float *value, uint32_t count) {
    fprintf(out, "%s", name);
    for (uint32_t i = 0; i < count && i < 8; i++)
        fprintf(out, "%s%.4f", i ? "," : " ", (double)value[i]);
    if (count > 8) fputs(",...", out);
}

/* Prints what computing the statistics would cost. */
static void print_pass(const ff_report *report, FILE *out) {
    fprintf(out, "mean and std %s %s", report->dry_run ? "would be" : "are",
            report->statistics_origin);
    if (report->pass == FF_PASS_WHILE_PACKING)
        fputs(report->part.count
                  ? " by ffpack merge, which adds up what the parts count while they "
                    "pack\n"
                  : " while it is packed\n",
              out);
    else
        fprintf(out, ", which takes a pass over %s before packing%s%s\n",
                ff_say_count(report->statistics_items, "item", "items").text,
                !report->part.count ? ""
                : report->shares
                    ? ", shared by the parts"
                    : ", in every part; parts called OUT.part-I-of-N, as --part auto calls them, "
                      "share it",
                report->statistics_items >= WORTH_SAMPLING ? "; --stats-sample N samples only N of "
                                                             "them"
                                                           : "");
}

/* Prints the result of a check that found nothing broken. */
static void print_checked(const ff_report *report, FILE *out) {
    fprintf(out, "checked %s (%s)\n", report->source, report->kind);
    print_listing(report, out);
    fprintf(
        out, "%s in %.2f s, %s: nothing is broken\n",
        ff_say_count(report->checked, "item", "items").text, report->seconds,
        ff_say_rate(report->seconds > 0 ? (double)report->checked / report->seconds : 0, "items")
            .text);
}

void ff_report_print(const ff_report *report, FILE *out) {
    if (report->unchanged) {
        fprintf(out, "unchanged: %s is what %s and the options make; nothing was done\n",
                report->output, report->source);
        return;
    }
    if (report->checked_only) {
        print_checked(report, out);
        return;
    }
    fprintf(out, "%s%s (%s)",
            report->appended  ? "appended "
            : report->copied  ? "copied "
            : report->kept    ? "kept "
            : report->dry_run ? "would pack "
                              : "packed ",
            report->source, report->kind);
    if (report->part.count) fprintf(out, ", part %u/%u", report->part.number, report->part.count);
    if (report->kept) fprintf(out, ": %s is whole already", report->output);
    fputc('\n', out);
    if (report->kept) return;
    uint64_t items = 0;
    for (size_t i = 0; i < report->split_count; i++) {
        print_split(report, &report->split[i], out);
        items += report->split[i].items - report->split[i].continued;
    }
    print_listing(report, out);
    if (report->decoded)
        fprintf(out, "decoded %s: nothing is broken\n",
                ff_say_count(report->checked, "item", "items").text);
    if (report->split_rule) fprintf(out, "split by the names' hashes: %s\n", report->split_rule);
    const ff_metadata *first = &report->split[0].metadata;
    if (report->statistics_known) {
        print_floats(out, "mean", first->mean, first->statistics_count);
        print_floats(out, ", std", first->std, first->statistics_count);
        fprintf(out, " (%s", report->statistics_origin);
        if (report->pass == FF_PASS_WHILE_PACKING) fputs(" while it was packed", out);
        if (report->pass == FF_PASS_BEFORE)
            fprintf(out, " in %.2f s, before packing", report->statistics_seconds);
        fputs(")\n", out);
    } else if (!strcmp(report->statistics_origin, "none")) {
        fputs("not normalized: no mean and std\n", out);
    } else {
        print_pass(report, out);
    }
    if (report->dry_run && report->free_known)
        fprintf(out, "needs %s%s on the disk, which has %s free\n",
                is_bound(first) ? "at most " : "", ff_say_bytes(report->needed_bytes).text,
                ff_say_bytes(report->free_bytes).text);
    if (!report->dry_run)
        fprintf(
            out, "%s in %.2f s, %s\n", ff_say_count(items, "item", "items").text, report->seconds,
            ff_say_rate((double)items / (report->seconds > 0 ? report->seconds : 1), "items").text);
}

/* ---- for programs -------------------------------------------------------------------------- */

static json_t *floats_of(const float *value, uint32_t count) {
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++) json_array_append_new(array, json_real((double)value[i]));
    return array;
}

static json_t *fields_of(const ff_metadata *metadata) {
    json_t *array = json_array();
    for (size_t i = 0; i < metadata->field_count; i++) {
        const ff_field *field = &metadata->field[i];
        json_t *names = json_array();
        for (uint32_t k = 0; k < field->class_count; k++)
            json_array_append_new(names, ff_json_text(field->class_name[k]));
        json_array_append_new(array, json_pack("{s:s, s:s, s:o}", "name", field->name, "kind",
                                               ff_field_kind_name(field->kind), "classes", names));
    }
    return array;
}

static json_t *left_out_of(const ff_left_out *left) {
    json_t *array = json_array();
    for (size_t i = 0; i < left->count; i++)
        json_array_append_new(array, json_pack("{s:s, s:I, s:o}", "what", left->kind[i].many,
                                               "count", (json_int_t)left->kind[i].count, "example",
                                               ff_json_text(left->kind[i].example)));
    return array;
}

static json_t *notes_of(const ff_names *notes) {
    json_t *array = json_array();
    for (size_t i = 0; i < notes->count; i++)
        json_array_append_new(array, ff_json_text(ff_names_at(notes, i)));
    return array;
}

static json_t *split_of(const ff_report *report, const ff_report_split *split) {
    const ff_metadata *metadata = &split->metadata;
    const ff_writer_result *result = &split->result;
    json_t *object = json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:s, s:s, s:i, s:i, s:i, s:b, s:I, s:I, s:I, s:o}", "split",
        ff_json_text(metadata->split), "items", (json_int_t)split->items, "samples",
        (json_int_t)result->sample_count, "continued", (json_int_t)split->continued, "warnings",
        (json_int_t)split->warnings, "dtype", ff_dtype_name(metadata->dtype), "layout",
        ff_layout_name(metadata->layout), "channels", (int)metadata->channels, "height",
        (int)metadata->height, "width", (int)metadata->width, "variable_size",
        metadata->variable_size, "shards", (json_int_t)result->shard_count, "items_per_shard",
        (json_int_t)metadata->items_per_shard, "bytes", (json_int_t)result->file_bytes, "fields",
        fields_of(metadata));
    json_object_set_new(object, "clipped", json_integer((json_int_t)split->clipped));
    json_object_set_new(object, "exif_orientation", json_integer((json_int_t)split->turned));
    json_object_set_new(object, "not_finite", json_integer((json_int_t)split->not_finite));
    if (split->directory) json_object_set_new(object, "directory", ff_json_text(split->directory));
    if (report->dry_run || report->part.count) return object;
    json_object_set_new(object, "content_id", ff_json_id(result->content_id));
    json_object_set_new(object, "transform_id", ff_json_id(result->transform_id));
    json_object_set_new(object, "source_id", ff_json_id(result->source_id));
    return object;
}

static json_t *unchanged_of(const ff_report *report) {
    return json_pack("{s:s, s:o, s:o}", "event", "unchanged", "source",
                     ff_json_text(report->source), "output", ff_json_text(report->output));
}

static json_t *splits_of(const ff_report *report) {
    json_t *splits = json_array();
    for (size_t i = 0; i < report->split_count; i++)
        json_array_append_new(splits, split_of(report, &report->split[i]));
    return splits;
}

static json_t *report_of(const ff_report *report) {
    json_t *root = json_pack("{s:s, s:o, s:s}", "event",
                             report->appended       ? "appended"
                             : report->copied       ? "copied"
                             : report->kept         ? "kept"
                             : report->checked_only ? "checked"
                             : report->dry_run      ? "would_pack"
                                                    : "packed",
                             "source", ff_json_text(report->source), "kind", report->kind);
    if (report->decoded) {
        json_object_set_new(root, "checked", json_integer((json_int_t)report->checked));
        json_object_set_new(root, "broken", json_integer((json_int_t)report->broken));
    }
    if (!report->checked_only) {
        json_object_set_new(root, "splits", splits_of(report));
        json_object_set_new(root, "statistics", json_string(report->statistics_origin));
    }
    if (report->part.count)
        json_object_set_new(root, "part",
                            json_sprintf("%u/%u", report->part.number, report->part.count));
    if (report->left_out.count)
        json_object_set_new(root, "left_out", left_out_of(&report->left_out));
    if (report->split_rule)
        json_object_set_new(root, "split_rule", ff_json_text(report->split_rule));
    if (report->notes.count) json_object_set_new(root, "notes", notes_of(&report->notes));
    if (report->output) json_object_set_new(root, "output", ff_json_text(report->output));
    if (report->skipped_path)
        json_object_set_new(root, "skipped", ff_json_text(report->skipped_path));
    if (report->statistics_known) {
        const ff_metadata *first = &report->split[0].metadata;
        json_object_set_new(root, "mean", floats_of(first->mean, first->statistics_count));
        json_object_set_new(root, "std", floats_of(first->std, first->statistics_count));
    }
    if (report->dry_run && !report->checked_only) {
        json_object_set_new(root, "needed_bytes", json_integer((json_int_t)report->needed_bytes));
        if (report->free_known)
            json_object_set_new(root, "free_bytes", json_integer((json_int_t)report->free_bytes));
    }
    if (report->pass == FF_PASS_BEFORE) {
        json_object_set_new(root, "statistics_items",
                            json_integer((json_int_t)report->statistics_items));
        if (report->statistics_known)
            json_object_set_new(root, "statistics_seconds", json_real(report->statistics_seconds));
    }
    if (!report->dry_run || report->checked_only)
        json_object_set_new(root, "seconds", json_real(report->seconds));
    return root;
}

ff_status ff_report_json(const ff_report *report, FILE *out, ff_error *error) {
    json_t *root = report->unchanged ? unchanged_of(report) : report_of(report);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text) return ff_fail(error, FF_NO_MEMORY, "not enough memory for the report");
    fprintf(out, "%s\n", text);
    free(text);
    return FF_OK;
}
