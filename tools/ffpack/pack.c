#include "tools/ffpack/pack.h"

#include "format/base/thread.h"
#include "format/generation.h"
#include "format/output.h"
#include "tools/ffpack/describe.h"
#include "tools/ffpack/measure.h"
#include "tools/ffpack/pack_split.h"
#include "tools/ffpack/source/disk.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct run {
    const ff_recipe *recipe;
    const ff_pack_options *options;
    ff_report *report;
    ff_source *source;
    ff_output *output;
    ff_sample_plan plan;
    float *mean, *std; /* [plan.channels]; NULL in a dry run that would compute them */
    ff_transform *transform;
    ff_skipped *skipped;
} run;

/* ---- statistics ---------------------------------------------------------------------------- */

/* The split whose statistics serve all: train, or the only one. */
static ff_status find_train(const ff_source *source, const ff_source_split **split,
                            ff_error *error) {
    *split = source->split_count == 1 ? &source->split[0] : ff_source_find(source, "train");
    if (*split) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s: has no split train to compute statistics from (its first is %s); wanted "
                   "--mean with --std, or --stats-from",
                   source->path, source->split[0].name);
}

static ff_status find_statistics(run *job, ff_error *error) {
    const ff_recipe *recipe = job->recipe;
    uint32_t channels = job->plan.channels;
    ff_report *report = job->report;
    if (recipe->statistics != FF_STATISTICS_COMPUTE) {
        if (recipe->statistics_count != channels)
            return ff_fail(
                error, FF_USAGE, "%s has %u values for mean and std, but %s has %u channels",
                recipe->statistics == FF_STATISTICS_GIVEN ? "--mean"
                                                          : recipe->arguments->stats_from,
                recipe->statistics_count, job->source->path, channels);
        FF_TRY(ff_copy_string(&report->statistics_origin, recipe->statistics_origin, error));
    } else if (!recipe->arguments->stats && job->plan.values != FF_VALUES_U8 &&
               ff_dtype_is_float(recipe->dtype)) {
        /* Floats and scaled integers are normalized where somebody says so. */
        return ff_copy_string(&report->statistics_origin, "none", error);
    } else if (job->plan.values == FF_VALUES_FLOAT) {
        return ff_fail(error, FF_USAGE,
                       "--stats compute: counts u8 and u16 values, and %s holds %s; wanted --mean "
                       "with --std, or neither",
                       job->source->path, ff_element_name(job->source->raw.element));
    } else {
        const ff_source_split *train;
        FF_TRY(find_train(job->source, &train, error));
        FF_TRY(ff_format(&report->statistics_origin, error, "computed from %s",
                         *train->name ? train->name : "all items"));
        if (report->dry_run) return FF_OK;
    }
    FF_TRY(ff_alloc(&job->mean, channels, sizeof *job->mean, "statistics", error));
    FF_TRY(ff_alloc(&job->std, channels, sizeof *job->std, "statistics", error));
    report->statistics_known = true;
    if (recipe->statistics == FF_STATISTICS_COMPUTE) {
        const ff_source_split *train;
        FF_TRY(find_train(job->source, &train, error));
        return ff_measure(&job->plan, train, recipe->jobs, recipe->skip, false, job->mean, job->std,
                          error);
    }
    memcpy(job->mean, recipe->mean, channels * sizeof *job->mean);
    memcpy(job->std, recipe->std, channels * sizeof *job->std);
    return FF_OK;
}

/* ---- the output ---------------------------------------------------------------------------- */

/* A folder source that holds its own output would list it as a class. */
static ff_status check_apart(const ff_source *source, const char *parent, ff_error *error) {
    char inside[PATH_MAX], root[PATH_MAX];
    if (strcmp(source->format->name, "folder") != 0) return FF_OK;
    if (!realpath(parent, inside) || !realpath(source->path, root)) return FF_OK;
    size_t length = strlen(root);
    if (strncmp(inside, root, length) != 0 || (inside[length] && inside[length] != '/'))
        return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "-o: the output would lie in the source folder %s; wanted "
                   "another place",
                   source->path);
}

/* The folder that OUT lies in. */
static ff_status parent_of(char **parent, const char *output, ff_error *error) {
    size_t length = (size_t)(ff_path_base(output) - output);
    if (!length) return ff_copy_string(parent, ".", error);
    return ff_format(parent, error, "%.*s", (int)length, output);
}

/* What an interrupted run left must be of the splits that this one writes: others would end up
 * in OUT. */
static ff_status check_leftovers(const run *job, const char *partial, ff_error *error) {
    ff_names names;
    FF_TRY(ff_names_read(&names, partial, NULL, error));
    ff_status status = FF_OK;
    bool alone = job->source->split_count == 1 && !*job->source->split[0].name;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        const char *name = ff_names_at(&names, i);
        bool shard = !strncmp(name, "shard-", 6) || !strncmp(name, "index.", 6) ||
                     !strncmp(name, "part.", 5);
        if (alone ? shard : ff_source_find(job->source, name) != NULL) continue;
        status = ff_fail(error, FF_USAGE,
                         "%s/%s: left by an earlier run with other options or another source; "
                         "remove %s to start afresh",
                         partial, name, partial);
    }
    ff_names_free(&names);
    return status;
}

/* ---- splits -------------------------------------------------------------------------------- */

static ff_status describe(run *job, const ff_source_split *split, ff_report_split *report,
                          ff_error *error) {
    if (job->recipe->arguments->output)
        FF_TRY(*split->name
                   ? ff_path_join(&report->directory, job->recipe->arguments->output, split->name,
                                  error)
                   : ff_copy_string(&report->directory, job->recipe->arguments->output, error));
    return ff_describe_split(&report->metadata, job->recipe, &job->plan, split, job->mean, job->std,
                             job->report->statistics_origin, error);
}

/* Sizes as they would be, at most, where nothing is compressed or left out. */
static void estimate(const ff_part *part, ff_report_split *report) {
    const ff_metadata *metadata = &report->metadata;
    uint64_t slot = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    uint32_t first = 0, end = ff_metadata_shard_count(metadata);
    if (part->count) ff_part_range(part, end, &first, &end);
    uint64_t begin = first * metadata->items_per_shard, stop = end * metadata->items_per_shard;
    report->items = (stop < metadata->items ? stop : metadata->items) - begin;
    report->result.sample_count = report->items;
    report->result.shard_count = end - first;
    report->result.file_bytes = report->items * slot;
}

static ff_status pack_split(run *job, const char *partial, size_t number, ff_error *error) {
    const ff_source_split *split = &job->source->split[number];
    ff_part part = job->recipe->part;
    part.split = (uint32_t)number;
    part.splits = (uint32_t)job->source->split_count;
    ff_pack_split packing = {.recipe = job->recipe,
                             .options = job->options,
                             .plan = &job->plan,
                             .split = split,
                             .part = part.count ? &part : NULL,
                             .transform = job->transform,
                             .skipped = job->skipped,
                             .partial = partial,
                             .report = &job->report->split[number]};
    FF_TRY(ff_output_split(job->output, split->name, &packing.directory, error));
    return ff_pack_split_run(&packing, error);
}

static ff_status pack_all(run *job, ff_error *error) {
    ff_source *source = job->source;
    const ff_recipe *recipe = job->recipe;
    const char *partial;
    FF_TRY(ff_output_split(job->output, "", &partial, error));
    FF_TRY(check_leftovers(job, partial, error));
    ff_transform_spec spec = ff_describe_transform(recipe, &job->plan, job->mean, job->std);
    FF_TRY(ff_transform_create(&job->transform, &spec, error));
    FF_TRY(ff_skipped_open(&job->skipped, recipe->arguments->output,
                           ff_output_continues(job->output), error));
    for (size_t i = 0; i < source->split_count; i++) FF_TRY(pack_split(job, partial, i, error));
    FF_TRY(ff_output_commit(job->output, error));
    const char *path = ff_skipped_path(job->skipped);
    return access(path, F_OK) == 0 ? ff_copy_string(&job->report->skipped_path, path, error)
                                   : FF_OK;
}

static ff_status open_output(run *job, const char *parent, ff_error *error) {
    const ff_arguments *arguments = job->recipe->arguments;
    if (!arguments->output) return FF_OK;
    FF_TRY(check_apart(job->source, parent, error));
    if (!arguments->dry_run)
        return ff_output_open(&job->output, arguments->output,
                              arguments->resume ? FF_OUTPUT_CONTINUE : FF_OUTPUT_NEW_OR_CONTINUE,
                              arguments->force, error);
    struct stat info;
    if (!arguments->force && lstat(arguments->output, &info) == 0)
        return ff_fail(error, FF_USAGE, "%s: exists already; --force replaces it",
                       arguments->output);
    return FF_OK;
}

/* A random order needs bytes that can be reached in any order. */
static ff_status check_shuffle(const run *job, ff_error *error) {
    for (size_t i = 0; i < job->source->split_count; i++)
        if (job->source->split[i].order && job->recipe->arguments->shuffle >= 0)
            return ff_fail(error, FF_USAGE,
                           "--shuffle: %s can only be read from front to back; wanted the archive "
                           "as an uncompressed tar, or its files in a folder",
                           job->source->path);
    return FF_OK;
}

static ff_status run_in(run *job, const char *parent, ff_error *error) {
    const ff_arguments *arguments = job->recipe->arguments;
    ff_report *report = job->report;
    const char *temporary = parent;
    if (arguments->dry_run) {
        temporary = getenv("TMPDIR");
        if (!temporary || !*temporary) temporary = "/tmp";
    }
    ff_source_options options = {.format = arguments->format,
                                 .classes = arguments->classes,
                                 .val_labels = arguments->val_labels,
                                 .label = arguments->label,
                                 .temporary = temporary,
                                 .array_layout = (ff_array_axes)(arguments->array_layout + 1),
                                 .skip = job->recipe->skip,
                                 .jobs = job->recipe->jobs};
    FF_TRY(ff_source_open(&job->source, arguments->source, &options, error));
    FF_TRY(open_output(job, parent, error));
    FF_TRY(ff_source_list(job->source, error));
    FF_TRY(check_shuffle(job, error));
    report->kind = job->source->kind;
    FF_TRY(ff_sample_plan_make(&job->plan, job->source, job->recipe, error));
    FF_TRY(find_statistics(job, error));
    for (size_t i = 0; i < job->source->split_count; i++) {
        ff_report_split *split;
        FF_TRY(ff_report_add_split(report, &split, error));
        FF_TRY(describe(job, &job->source->split[i], split, error));
        if (report->dry_run) estimate(&job->recipe->part, split);
    }
    return report->dry_run ? FF_OK : pack_all(job, error);
}

ff_status ff_pack_run(const ff_recipe *recipe, const ff_pack_options *options, ff_report *report,
                      ff_error *error) {
    run job = {.recipe = recipe, .options = options, .report = report};
    const ff_arguments *arguments = recipe->arguments;
    uint64_t began_ns = ff_now_ns();
    char *parent = NULL;
    report->dry_run = arguments->dry_run;
    report->part = recipe->part;
    ff_status status = ff_copy_string(&report->source, arguments->source, error);
    if (status == FF_OK && arguments->output)
        status = ff_copy_string(&report->output, arguments->output, error);
    if (status == FF_OK)
        status = parent_of(&parent, arguments->output ? arguments->output : "", error);
    if (status == FF_OK) status = run_in(&job, parent, error);
    ff_skipped_close(&job.skipped);
    ff_output_close(&job.output);
    ff_transform_destroy(&job.transform);
    ff_sample_plan_free(&job.plan);
    ff_source_close(&job.source);
    free(job.mean);
    free(job.std);
    free(parent);
    report->seconds = (double)(ff_now_ns() - began_ns) * 1e-9;
    return status;
}
