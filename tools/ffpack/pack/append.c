#include "tools/ffpack/pack/append.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/base/thread.h"
#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "format/disk/set.h"
#include "format/disk/shard.h"
#include "format/reader/reader.h"
#include "format/storage/storage.h"
#include "format/writer/index.h"
#include "tools/ffpack/pack/append_match.h"
#include "tools/ffpack/run/space.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the set -------------------------------------------------------------------------------- */

static ff_status add_target(ff_append *append, const char *folder, ff_error *error) {
    FF_TRY(ff_reserve(&append->target, &append->capacity, append->count + 1, sizeof *append->target,
                      "splits", error));
    ff_append_target *at = &append->target[append->count++];
    append->opened = append->count;
    at->lock = -1;
    FF_TRY(ff_copy_string(&at->folder, folder, error));
    at->lock = open(at->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at->lock < 0) return ff_fail_errno(error, "%s: cannot open the folder", at->folder);
    FF_TRY(ff_lock_folder(at->lock, at->folder, &at->unlocked, error));
    ff_dataset *dataset;
    FF_TRY(ff_dataset_open(&dataset, at->folder, FF_VERIFY_FIRST, error));
    memcpy(at->id, ff_dataset_metadata_id(dataset), sizeof at->id);
    at->samples = ff_dataset_count(dataset);
    at->first_shard = ff_dataset_shard_count(dataset);
    ff_status status = ff_metadata_copy(&at->metadata, ff_dataset_metadata(dataset), error);
    ff_dataset_close(&dataset);
    return status;
}

static ff_status open_set(ff_append *append, const char *path, ff_error *error) {
    FF_TRY(ff_copy_bytes(&append->path, path, ff_path_length(path), error));
    ff_set set;
    ff_status status = ff_set_find(&set, append->path, error);
    for (size_t i = 0; i < set.count && status == FF_OK; i++)
        if (set.split[i].kind == FF_FOLDER_SPLIT)
            status = add_target(append, set.split[i].path, error);
    ff_set_free(&set);
    FF_TRY(status);
    return append->count ? FF_OK : ff_set_refuse(append->path, error);
}

ff_status ff_append_open(ff_append **out, const char *path, ff_error *error) {
    ff_append *append;
    *out = NULL;
    FF_TRY(ff_storage_refuse(path, "append changes", error));
    FF_TRY(ff_alloc(&append, 1, sizeof *append, "a set", error));
    ff_status status = open_set(append, path, error);
    if (status != FF_OK) ff_append_close(&append);
    *out = append;
    return status;
}

void ff_append_close(ff_append **out) {
    ff_append *append = *out;
    if (!append) return;
    for (size_t i = 0; i < append->opened; i++) {
        ff_append_target *at = &append->target[i];
        ff_class_map_free(&at->map);
        free(at->folder);
        ff_metadata_free(&at->metadata);
        ff_close_file(&at->lock);
    }
    ff_known_destroy(&append->known);
    free(append->target);
    free(append->path);
    free(append);
    *out = NULL;
}

const ff_metadata *ff_append_metadata(const ff_append *append) {
    return &append->target[0].metadata;
}

static bool has_shard(const ff_append_target *at, uint32_t number) {
    char name[32];
    ff_shard_name(name, number);
    return ff_path_exists("%s/%s", at->folder, name);
}

bool ff_append_committed(const ff_append *append) {
    return append->committed;
}

bool ff_append_kept(const ff_append *append) {
    if (append->committed) return false;
    for (size_t i = 0; i < append->count; i++)
        if (has_shard(&append->target[i], append->target[i].first_shard)) return true;
    return false;
}

/* ---- what an interrupted append left -------------------------------------------------------- */

/* An append writes the shards of all splits, then the indexes, in this order. So if a later split
 * still has shards beyond its index, and this split does not, this split's index was already
 * written. */
static void find_done(ff_append *append) {
    bool later = false;
    for (size_t i = append->count; i-- > 0;) {
        ff_append_target *at = &append->target[i];
        bool uncommitted = has_shard(at, at->first_shard);
        at->done = later && !uncommitted && at->metadata.generation_count &&
                   !strcmp(ff_append_recorded_listing(&at->metadata), at->listing);
        later |= uncommitted;
    }
}

/* Removes shards beyond the index that are not of the next generation: no index ever named them. */
static ff_status clean(const ff_append_target *at, const ff_buffer *text, const ff_notices *options,
                       ff_error *error) {
    uint8_t id[16];
    bool ours = true;
    uint32_t number = at->first_shard;
    ff_id_of(id, text->bytes, text->length);
    for (; ours && has_shard(at, number); number++) {
        ff_shard shard;
        ff_error ignored = {0};
        ours = ff_shard_open(&shard, at->folder, number, &ignored) == FF_OK;
        if (ours) ours = !memcmp(shard.header.metadata_id, id, sizeof id);
        ff_shard_close(&shard);
    }
    ff_names names;
    uint64_t removed = 0;
    FF_TRY(ff_names_read(&names, at->folder, NULL, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        const char *name = ff_names_at(&names, i);
        uint32_t found;
        if (!ff_shard_name_parse(name, &found) || found < (ours ? number : at->first_shard))
            continue;
        if (unlinkat(at->lock, name, 0))
            status = ff_fail_errno(error, "%s/%s: cannot remove", at->folder, name);
        removed++;
    }
    ff_names_free(&names);
    /* Make the removal durable before others take their names. */
    if (status == FF_OK && removed) status = ff_sync_directory(at->folder, error);
    if (status == FF_OK && removed)
        ff_notice(options,
                  "%s: removed %" PRIu64 " shards of another append that was never finished",
                  at->folder, removed);
    return status;
}

/* ---- running -------------------------------------------------------------------------------- */

/* Takes the set's statistics; the options' statistics must be equal. */
static ff_status take_statistics(ff_run *job, const ff_metadata *set, ff_error *error) {
    const ff_settings *settings = job->settings;
    bool given =
        settings->statistics == FF_STATISTICS_GIVEN || settings->statistics == FF_STATISTICS_FROM;
    uint32_t count = given ? settings->statistics_count : set->statistics_count;
    if (given && !count) count = job->plan.channels; /* any number */
    if (!count) return ff_copy_string(&job->report->statistics_origin, "none", error);
    if (count != job->plan.channels)
        return ff_fail(error, FF_USAGE, "%s: has %u channels, wanted %u", job->source->path,
                       job->plan.channels, count);
    FF_TRY(ff_alloc(&job->mean, count, sizeof *job->mean, "statistics", error));
    FF_TRY(ff_alloc(&job->std, count, sizeof *job->std, "statistics", error));
    memcpy(job->mean, given ? settings->mean : set->mean, count * sizeof *job->mean);
    memcpy(job->std, given ? settings->std : set->std, count * sizeof *job->std);
    job->report->statistics_known = true;
    return ff_copy_string(&job->report->statistics_origin, "the set's", error);
}

/* Reads what an interrupted append has already added, so that it is not added again. */
static ff_status find_known(ff_append *append, ff_error *error) {
    FF_TRY(ff_known_create(&append->known, error));
    for (size_t i = 0; i < append->count; i++)
        if (!append->target[i].done)
            FF_TRY(ff_known_add(append->known, append->target[i].folder, error));
    return FF_OK;
}

static ff_status write_shards(ff_run *job, ff_append_target *at, const ff_known *known,
                              ff_report_split *report, ff_error *error) {
    ff_buffer text = {0};
    ff_status status = ff_metadata_write(&report->metadata, &text, error);
    if (status == FF_OK) status = clean(at, &text, job->options, error);
    ff_buffer_free(&text);
    ff_pack_split packing = {.split = at->split,
                             .classes = &at->map,
                             .known = known,
                             .shards_only = true,
                             .directory = at->folder,
                             .partial = at->folder,
                             .report = report};
    return status == FF_OK ? ff_run_split(job, &packing, error) : status;
}

static ff_status write_index(const ff_append_target *at, ff_report_split *report, ff_error *error) {
    ff_buffer text = {0};
    ff_status status;
    FF_TRY_DONE(ff_metadata_write(&report->metadata, &text, error));
    FF_TRY_DONE(ff_index_build(at->folder, &text, &report->result, NULL, error));
done:
    ff_buffer_free(&text);
    return status;
}

/* The list of left-out items is next to the set, also when appending to one of its splits. */
static ff_status open_skipped(ff_run *job, const ff_append *append, ff_error *error) {
    const char *split = append->target[0].metadata.split, *base = ff_path_base(append->path);
    if (append->count > 1 || !*split || strcmp(base, split) != 0)
        return ff_skipped_open(&job->skipped, append->path, true, error);
    char *set;
    FF_TRY(ff_run_parent(&set, append->path, error));
    ff_status status = ff_skipped_open(&job->skipped, set, true, error);
    free(set);
    return status;
}

static ff_status note_class(ff_report *report, const ff_append_target *at, const ff_field *field,
                            uint32_t number, ff_error *error) {
    return ff_names_add_text(&report->notes, error, "%s: class %u of %s is new: %s", at->folder,
                             number, field->name, field->class_name[number]);
}

/* Reports a split that an interrupted append has completed. */
static ff_status report_done(const ff_append_target *at, ff_report_split *report,
                             const ff_notices *options, ff_error *error) {
    ff_metadata_free(&report->metadata);
    FF_TRY(ff_metadata_copy(&report->metadata, &at->metadata, error));
    report->result =
        (ff_writer_result){.sample_count = at->samples, .shard_count = at->first_shard};
    report->earlier = at->samples;
    ff_notice(options, "%s: has these items from the append that was interrupted", at->folder);
    return FF_OK;
}

/* If a set has several splits, all keep the same classes. */
static ff_status refuse_alone(const ff_append *append, const ff_split_rule *rule, const char *name,
                              ff_error *error) {
    if (rule && rule->count > append->count)
        return ff_fail(
            error, FF_USAGE,
            "--new-classes: %s would have a class '%s' in some of its splits alone, since "
            "no new item belongs to the others; ffpack copy --add-class makes a set of "
            "which all have it",
            append->path, name);
    const char *split = append->target[0].metadata.split;
    if (append->count > 1 || !*split || strcmp(ff_path_base(append->path), split) != 0)
        return FF_OK;
    char *parent;
    ff_set set = {0};
    FF_TRY(ff_run_parent(&parent, append->path, error));
    ff_status status = ff_set_find(&set, parent, error);
    if (status == FF_OK && set.count > 1)
        status = ff_fail(error, FF_USAGE,
                         "--new-classes: %s would have a class '%s' that the other splits of %.*s "
                         "lack; ffpack copy --add-class makes a set of which all have it",
                         append->path, name, (int)ff_path_length(parent), parent);
    ff_set_free(&set);
    free(parent);
    return status;
}

/* Matches the classes, and notes those that are new. */
static ff_status map_classes(const ff_append *append, ff_append_target *at, ff_run *job,
                             ff_error *error) {
    ff_metadata before = {0};
    ff_status status;
    FF_TRY_DONE(ff_metadata_copy(&before, &at->metadata, error));
    FF_TRY_DONE(ff_append_map_classes(at, &job->source->labels, job->source->path,
                                      job->settings->new_classes, error));
    for (size_t i = 0; i < before.field_count; i++) {
        const ff_field *field = &at->metadata.field[i];
        for (uint32_t k = before.field[i].class_count; k < field->class_count; k++) {
            FF_TRY_DONE(refuse_alone(append, job->source->rule, field->class_name[k], error));
            FF_TRY_DONE(note_class(job->report, at, field, k, error));
        }
    }
done:
    ff_metadata_free(&before);
    return status;
}

/* The samples are in the set already, so a history that cannot be written fails nothing. */
static void add_to_histories(const ff_append *append, const ff_run *job) {
    const ff_settings *settings = job->settings;
    for (size_t i = 0; i < append->count; i++) {
        ff_error unrecorded;
        if (ff_history_add(append->target[i].folder, &settings->history, settings->path,
                           &unrecorded) != FF_OK)
            ff_notice(job->options, "%s", unrecorded.message);
    }
}

static ff_status append_in(ff_append *append, ff_run *job, const ff_split_rule *rule,
                           const char *parent, ff_error *error) {
    ff_report *report = job->report;
    FF_TRY(ff_run_open(job, parent, error));
    FF_TRY(ff_run_check_apart(job, append->path, error));
    if (rule->count) job->source->rule = rule;
    FF_TRY(ff_run_list(job, error));
    FF_TRY(ff_append_match_splits(append, job->source, error));
    FF_TRY(take_statistics(job, &append->target[0].metadata, error));
    for (size_t i = 0; i < append->count; i++) {
        ff_append_target *at = &append->target[i];
        ff_report_split *split;
        FF_TRY(ff_report_add_split(report, &split, error));
        FF_TRY(ff_copy_string(&split->directory, at->folder, error));
        FF_TRY(map_classes(append, at, job, error));
        FF_TRY(ff_append_describe(job, at, &split->metadata, error));
        split->earlier = at->samples;
        ff_space_estimate(split, ff_listing_key_bytes(at->split->listing), NULL);
    }
    if (append->target[0].unlocked) ff_notice(job->options, FF_UNLOCKED, append->path);
    if (!ff_append_kept(append))
        FF_TRY(ff_space_check(report, append->path, 0, job->options, error));
    FF_TRY(open_skipped(job, append, error));
    find_done(append);
    if (!job->settings->allow_duplicates) FF_TRY(find_known(append, error));
    for (size_t i = 0; i < append->count; i++) {
        ff_append_target *at = &append->target[i];
        FF_TRY(at->done ? report_done(at, &report->split[i], job->options, error)
                        : write_shards(job, at, append->known, &report->split[i], error));
    }
    for (size_t i = 0; i < append->count; i++)
        if (!append->target[i].done)
            FF_TRY(write_index(&append->target[i], &report->split[i], error));
    append->committed = true;
    add_to_histories(append, job);
    const char *path = ff_skipped_path(job->skipped);
    return access(path, F_OK) == 0 ? ff_copy_string(&report->skipped_path, path, error) : FF_OK;
}

ff_status ff_append_run(ff_append *append, const ff_settings *settings, const ff_notices *options,
                        ff_report *report, ff_error *error) {
    ff_run job = {.settings = settings, .options = options, .report = report};
    uint64_t began_ns = ff_now_ns();
    char *parent = NULL;
    ff_split_rule rule = {0};
    report->appended = true;
    report->exif = settings->exif;
    ff_status status;
    FF_TRY_DONE(ff_source_shown(&report->source, settings->path, error));
    FF_TRY_DONE(ff_copy_string(&report->output, append->path, error));
    FF_TRY_DONE(ff_run_parent(&parent, append->path, error));
    FF_TRY_DONE(ff_append_rule(append, &rule, error));
    FF_TRY_DONE(append_in(append, &job, &rule, parent, error));
done:
    ff_run_close(&job);
    ff_split_rule_free(&rule);
    free(parent);
    report->seconds = (double)(ff_now_ns() - began_ns) * 1e-9;
    return status;
}
