#include "tools/ffpack/copy/copy.h"

#include "format/base/path.h"
#include "format/base/thread.h"
#include "format/disk/set.h"
#include "format/writer/output.h"
#include "tools/ffpack/copy/classes.h"
#include "tools/ffpack/copy/describe.h"
#include "tools/ffpack/copy/labels.h"
#include "tools/ffpack/run/run.h"
#include "tools/ffpack/run/space.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A split of the set, and the copy's part of it. */
typedef struct split {
    const char *folder; /* its name in the set; "" if the set is the split */
    const char *name;   /* the split's name, also if its folder is the set */
    ff_dataset *dataset;
    ff_choice choice;
    ff_class_map classes;
    size_t field; /* the field that the edits change */
    int64_t *label;
    ff_transform *transform;
} split;

typedef struct copy {
    const ff_copy_options *options;
    ff_report *report;
    ff_set set;
    split *split; /* [set.count], of which the copy has the first */
    size_t count;
    ff_keys keys;
    ff_where *where; /* NULL: without --where */
    ff_relabel relabel;
    ff_output *output;
} copy;

/* ---- the set and its place ------------------------------------------------------------------ */

static ff_status open_split(split *at, const ff_split *found, ff_error *error) {
    if (found->kind != FF_FOLDER_SPLIT) return ff_set_refuse(found->path, error);
    FF_TRY(ff_dataset_open(&at->dataset, found->path, FF_VERIFY_FIRST, error));
    at->folder = found->name;
    at->name = *found->name ? found->name : ff_dataset_metadata(at->dataset)->split;
    return FF_OK;
}

static ff_status open_set(copy *job, ff_error *error) {
    const char *path = job->options->set;
    FF_TRY(ff_set_find(&job->set, path, error));
    if (!job->set.count) return ff_set_refuse(path, error);
    job->count = job->set.count;
    FF_TRY(ff_alloc(&job->split, job->count, sizeof *job->split, "splits", error));
    for (size_t i = 0; i < job->count; i++)
        FF_TRY(open_split(&job->split[i], &job->set.split[i], error));
    return FF_OK;
}

/* NEW inside the set would be a split of the set; NEW around the set would replace the set. */
static ff_status check_apart(const ff_copy_options *options, ff_error *error) {
    bool within, around = false;
    FF_TRY(ff_path_lies_in(&within, options->output, options->set, error));
    if (ff_path_exists("%s", options->output))
        FF_TRY(ff_path_lies_in(&around, options->set, options->output, error));
    if (!within && !around) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "-o %s: is %s itself, or one is inside the other; wanted another place",
                   options->output, options->set);
}

/* ---- the edits ------------------------------------------------------------------------------ */

static bool edits_classes(const ff_copy_options *options) {
    return options->rename.count || options->merge.count || options->add.count;
}

static ff_status several_fields(const ff_dataset *dataset, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    ff_buffer names = {0};
    ff_status status = FF_OK;
    for (size_t i = 0; i < metadata->field_count && status == FF_OK; i++)
        status = ff_buffer_printf(&names, error, "%s%s", i ? ", " : "", metadata->field[i].name);
    if (status == FF_OK)
        status = ff_fail(error, FF_USAGE, "%s: has the label fields %s; wanted --label FIELD",
                         ff_dataset_path(dataset), names.bytes);
    ff_buffer_free(&names);
    return status;
}

/* The field that edits change. */
static ff_status find_field(const ff_copy_options *options, split *at, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(at->dataset);
    if (!options->label && metadata->field_count > 1) return several_fields(at->dataset, error);
    FF_TRY(ff_dataset_field(at->dataset, options->label, &at->field, error));
    const ff_field *field = &metadata->field[at->field];
    if (field->kind != FF_FIELD_CLASS)
        return ff_fail(error, FF_USAGE, "%s: label field %s is %s; wanted one of classes",
                       ff_dataset_path(at->dataset), field->name, ff_field_kind_name(field->kind));
    if (edits_classes(options) && !field->class_count)
        return ff_fail(error, FF_USAGE, "%s: the classes of label field %s have no names",
                       ff_dataset_path(at->dataset), field->name);
    return FF_OK;
}

static ff_status edit_classes(const ff_copy_options *options, split *at, ff_metadata *metadata,
                              ff_error *error) {
    const ff_class_edit edit = {.copy = metadata,
                                .field = at->field,
                                .map = &at->classes,
                                .path = ff_dataset_path(at->dataset)};
    for (int i = 0; i < options->rename.count; i++)
        FF_TRY(ff_class_rename(&edit, options->rename.value[i], error));
    for (int i = 0; i < options->merge.count; i++)
        FF_TRY(ff_class_merge(&edit, options->merge.value[i], error));
    for (int i = 0; i < options->add.count; i++)
        FF_TRY(ff_class_append(&edit, options->add.value[i], error));
    return FF_OK;
}

static ff_status edit_labels(copy *job, split *at, ff_metadata *metadata, ff_error *error) {
    char *said = NULL;
    FF_TRY(ff_relabel_split(&job->relabel, &at->choice, at->dataset, metadata, at->field, at->name,
                            job->options->label, &at->label, &said, error));
    ff_status status = FF_OK;
    if (said) status = ff_names_add(&job->report->notes, said, strlen(said), error);
    free(said);
    return status;
}

/* ---- splits --------------------------------------------------------------------------------- */

static ff_copy_split work_of(const copy *job, size_t number) {
    const split *at = &job->split[number];
    return (ff_copy_split){.dataset = at->dataset,
                           .choice = &at->choice,
                           .classes = &at->classes,
                           .field = at->field,
                           .label = at->label,
                           .transform = at->transform,
                           .jobs = job->options->jobs,
                           .report = &job->report->split[number]};
}

/* A split of which --where selects no sample is not copied: `split = 'train'`. */
static ff_status drop_empty(copy *job, ff_error *error) {
    size_t kept = 0;
    for (size_t i = 0; i < job->count; i++) {
        const split at = job->split[i];
        if (at.choice.count) {
            job->split[i] = job->split[kept];
            job->split[kept++] = at;
            continue;
        }
        FF_TRY(ff_names_add_text(&job->report->notes, error,
                                 "%s is not copied: --where matches none of its samples",
                                 *at.name ? at.name : ff_dataset_path(at.dataset)));
    }
    if (!kept)
        return ff_fail(error, FF_USAGE, "--where: no sample of %s would be left",
                       job->options->set);
    job->count = kept;
    return FF_OK;
}

/* A split has at least one sample. */
static ff_status check_left(const copy *job, ff_error *error) {
    for (size_t i = 0; i < job->count; i++)
        if (!job->split[i].choice.count)
            return ff_fail(error, FF_USAGE, "--%s: nothing of %s would be left%s",
                           job->options->keys ? "keys" : "not-keys",
                           ff_dataset_path(job->split[i].dataset),
                           job->count > 1 ? "; wanted to copy another split alone" : "");
    return FF_OK;
}

static ff_status read_where(copy *job, ff_error *error) {
    FF_TRY(ff_alloc(&job->where, 1, sizeof *job->where, "an expression", error));
    const ff_status status = ff_where_read(job->where, job->options->where, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "--where");
}

static ff_status choose(copy *job, ff_error *error) {
    const ff_copy_options *options = job->options;
    const char *path = options->keys ? options->keys : options->not_keys;
    if (path) FF_TRY(ff_keys_read(&job->keys, path, error));
    if (options->where) FF_TRY(read_where(job, error));
    for (size_t i = 0; i < job->count; i++) {
        split *at = &job->split[i];
        const ff_choice_rule rule = {.split = at->name,
                                     .keys = path ? &job->keys : NULL,
                                     .others = options->not_keys != NULL,
                                     .where = job->where};
        FF_TRY(ff_choice_make(&at->choice, at->dataset, &rule, error));
    }
    if (path) FF_TRY(ff_keys_check(&job->keys, options->set, error));
    if (options->where) FF_TRY(drop_empty(job, error));
    return check_left(job, error);
}

/* The number of samples that the choice leaves out of a split. */
static ff_status note_left_out(copy *job, const split *at, ff_error *error) {
    const uint64_t all = ff_dataset_count(at->dataset), count = all - at->choice.count;
    if (!count) return FF_OK;
    return ff_names_add_text(&job->report->notes, error,
                             "%s%s%" PRIu64 " of its %" PRIu64 " samples left out", at->name,
                             *at->name ? ": " : "", count, all);
}

static ff_status describe(copy *job, size_t number, ff_error *error) {
    const ff_copy_options *options = job->options;
    split *at = &job->split[number];
    ff_report_split *report;
    FF_TRY(ff_report_add_split(job->report, &report, error));
    FF_TRY(*at->folder ? ff_path_join(&report->directory, options->output, at->folder, error)
                       : ff_copy_string(&report->directory, options->output, error));
    FF_TRY(ff_copy_describe(&report->metadata, at->dataset, at->choice.count, error));
    FF_TRY(ff_class_map_create(&at->classes, report->metadata.field_count, error));
    if (edits_classes(options) || options->labels) FF_TRY(find_field(options, at, error));
    FF_TRY(edit_classes(options, at, &report->metadata, error));
    if (options->labels) FF_TRY(edit_labels(job, at, &report->metadata, error));
    if (options->converts)
        FF_TRY(ff_copy_convert(&report->metadata, options->dtype, ff_dataset_path(at->dataset),
                               &at->transform, error));
    const ff_copy_split work = work_of(job, number);
    FF_TRY(ff_copy_record(&work, error));
    FF_TRY(note_left_out(job, at, error));
    ff_space_estimate(&job->report->split[number], at->choice.key_bytes, NULL);
    return FF_OK;
}

static ff_status describe_all(copy *job, ff_error *error) {
    const ff_metadata *first = ff_dataset_metadata(job->split[0].dataset);
    job->relabel.path = job->options->labels;
    for (size_t i = 0; i < job->count; i++) FF_TRY(describe(job, i, error));
    if (job->options->labels) FF_TRY(ff_relabel_check(&job->relabel, job->options->set, error));
    job->report->statistics_known = first->statistics_count > 0;
    return ff_copy_string(&job->report->statistics_origin,
                          first->statistics_count ? "the set's" : "none", error);
}

static ff_status write_split(copy *job, size_t number, const char *partial, ff_error *error) {
    const split *at = &job->split[number];
    const char *before = ff_dataset_path(at->dataset);
    ff_copy_split work = work_of(job, number);
    work.partial = partial;
    FF_TRY(ff_output_split(job->output, at->folder, &work.directory, error));
    FF_TRY(ff_copy_split_run(&work, error));
    return ff_history_begin(work.directory, &job->options->history, job->options->set, &before, 1,
                            error);
}

static ff_status write_all(copy *job, ff_error *error) {
    const char *partial, **name;
    FF_TRY(ff_output_split(job->output, "", &partial, error));
    FF_TRY(ff_alloc(&name, job->count, sizeof *name, "splits", error));
    for (size_t i = 0; i < job->count; i++) name[i] = job->split[i].folder;
    ff_status status = ff_run_check_leftovers(partial, name, job->count, error);
    free(name);
    for (size_t i = 0; i < job->count && status == FF_OK; i++)
        status = write_split(job, i, partial, error);
    return status;
}

static ff_status run(copy *job, ff_error *error) {
    const ff_copy_options *options = job->options;
    char *parent;
    FF_TRY(open_set(job, error));
    FF_TRY(check_apart(options, error));
    FF_TRY(ff_output_open(&job->output, options->output, FF_OUTPUT_NEW_OR_CONTINUE, options->force,
                          error));
    job->report->opened = true;
    if (ff_output_unlocked(job->output)) ff_notice(&options->notices, FF_UNLOCKED, options->output);
    FF_TRY(choose(job, error));
    FF_TRY(describe_all(job, error));
    FF_TRY(ff_run_parent(&parent, options->output, error));
    ff_status status =
        ff_space_check(job->report, parent, ff_output_bytes(job->output), &options->notices, error);
    free(parent);
    FF_TRY(status);
    FF_TRY(write_all(job, error));
    return ff_output_commit(job->output, error);
}

static void release(copy *job) {
    ff_output_close(&job->output);
    for (size_t i = 0; job->split && i < job->set.count; i++) {
        split *at = &job->split[i];
        ff_choice_free(&at->choice);
        ff_class_map_free(&at->classes);
        free(at->label);
        ff_transform_destroy(&at->transform);
        ff_dataset_close(&at->dataset);
    }
    free(job->split);
    ff_keys_free(&job->keys);
    free(job->where);
    ff_relabel_free(&job->relabel);
    ff_set_free(&job->set);
}

ff_status ff_copy_run(const ff_copy_options *options, ff_report *report, ff_error *error) {
    copy job = {.options = options, .report = report};
    const uint64_t began_ns = ff_now_ns();
    report->copied = true;
    report->kind = "packed set";
    ff_status status;
    FF_TRY_DONE(ff_copy_string(&report->source, options->set, error));
    FF_TRY_DONE(ff_copy_string(&report->output, options->output, error));
    FF_TRY_DONE(run(&job, error));
done:
    release(&job);
    report->seconds = (double)(ff_now_ns() - began_ns) * 1e-9;
    return status;
}
