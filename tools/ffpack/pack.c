#include "tools/ffpack/pack.h"

#include "format/base/thread.h"
#include "format/generation.h"
#include "format/output.h"
#include "tools/ffpack/describe.h"
#include "tools/ffpack/measure.h"
#include "tools/ffpack/run.h"
#include "tools/ffpack/source/disk.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct pack {
    ff_run run; /* mean and std: NULL in a dry run that would compute them */
    ff_output *output;
} pack;

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

static ff_status find_statistics(pack *job, ff_error *error) {
    const ff_recipe *recipe = job->run.recipe;
    uint32_t channels = job->run.plan.channels;
    ff_report *report = job->run.report;
    if (recipe->statistics != FF_STATISTICS_COMPUTE) {
        if (recipe->statistics_count != channels)
            return ff_fail(
                error, FF_USAGE, "%s has %u values for mean and std, but %s has %u channels",
                recipe->statistics == FF_STATISTICS_GIVEN ? "--mean"
                                                          : recipe->arguments->stats_from,
                recipe->statistics_count, job->run.source->path, channels);
        FF_TRY(ff_copy_string(&report->statistics_origin, recipe->statistics_origin, error));
    } else if (!recipe->arguments->stats && job->run.plan.values != FF_VALUES_U8 &&
               ff_dtype_is_float(recipe->dtype)) {
        /* Floats and scaled integers are normalized where somebody says so. */
        return ff_copy_string(&report->statistics_origin, "none", error);
    } else if (job->run.plan.values == FF_VALUES_FLOAT) {
        return ff_fail(error, FF_USAGE,
                       "--stats compute: counts u8 and u16 values, and %s holds %s; wanted --mean "
                       "with --std, or neither",
                       job->run.source->path, ff_element_name(job->run.source->raw.element));
    } else {
        const ff_source_split *train;
        FF_TRY(find_train(job->run.source, &train, error));
        FF_TRY(ff_format(&report->statistics_origin, error, "computed from %s",
                         *train->name ? train->name : "all items"));
        if (report->dry_run) return FF_OK;
    }
    FF_TRY(ff_alloc(&job->run.mean, channels, sizeof *job->run.mean, "statistics", error));
    FF_TRY(ff_alloc(&job->run.std, channels, sizeof *job->run.std, "statistics", error));
    report->statistics_known = true;
    if (recipe->statistics == FF_STATISTICS_COMPUTE) {
        const ff_source_split *train;
        FF_TRY(find_train(job->run.source, &train, error));
        return ff_measure(&job->run.plan, train, recipe->jobs, recipe->skip, false, job->run.mean,
                          job->run.std, error);
    }
    memcpy(job->run.mean, recipe->mean, channels * sizeof *job->run.mean);
    memcpy(job->run.std, recipe->std, channels * sizeof *job->run.std);
    return FF_OK;
}

/* ---- the output ---------------------------------------------------------------------------- */

/* What an interrupted run left must be of the splits that this one writes: others would end up
 * in OUT. */
static ff_status check_leftovers(const pack *job, const char *partial, ff_error *error) {
    ff_names names;
    FF_TRY(ff_names_read(&names, partial, NULL, error));
    ff_status status = FF_OK;
    bool alone = job->run.source->split_count == 1 && !*job->run.source->split[0].name;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        const char *name = ff_names_at(&names, i);
        bool shard = !strncmp(name, "shard-", 6) || !strncmp(name, "index.", 6) ||
                     !strncmp(name, "part.", 5);
        if (alone ? shard : ff_source_find(job->run.source, name) != NULL) continue;
        status = ff_fail(error, FF_USAGE,
                         "%s/%s: left by an earlier run with other options or another source; "
                         "remove %s to start afresh",
                         partial, name, partial);
    }
    ff_names_free(&names);
    return status;
}

/* ---- splits -------------------------------------------------------------------------------- */

static ff_status describe(pack *job, const ff_source_split *split, ff_report_split *report,
                          ff_error *error) {
    if (job->run.recipe->arguments->output)
        FF_TRY(*split->name
                   ? ff_path_join(&report->directory, job->run.recipe->arguments->output,
                                  split->name, error)
                   : ff_copy_string(&report->directory, job->run.recipe->arguments->output, error));
    return ff_describe_split(&report->metadata, job->run.recipe, &job->run.plan, split,
                             job->run.mean, job->run.std, job->run.report->statistics_origin,
                             error);
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

static ff_status pack_split(pack *job, const char *partial, size_t number, ff_error *error) {
    const ff_source_split *split = &job->run.source->split[number];
    ff_part part = job->run.recipe->part;
    part.split = (uint32_t)number;
    part.splits = (uint32_t)job->run.source->split_count;
    ff_pack_split packing = {.split = split,
                             .part = part.count ? &part : NULL,
                             .partial = partial,
                             .report = &job->run.report->split[number]};
    FF_TRY(ff_output_split(job->output, split->name, &packing.directory, error));
    return ff_run_split(&job->run, &packing, error);
}

static ff_status pack_all(pack *job, ff_error *error) {
    ff_source *source = job->run.source;
    const ff_recipe *recipe = job->run.recipe;
    const char *partial;
    FF_TRY(ff_output_split(job->output, "", &partial, error));
    FF_TRY(check_leftovers(job, partial, error));
    FF_TRY(ff_skipped_open(&job->run.skipped, recipe->arguments->output,
                           ff_output_continues(job->output), error));
    for (size_t i = 0; i < source->split_count; i++) FF_TRY(pack_split(job, partial, i, error));
    FF_TRY(ff_output_commit(job->output, error));
    const char *path = ff_skipped_path(job->run.skipped);
    return access(path, F_OK) == 0 ? ff_copy_string(&job->run.report->skipped_path, path, error)
                                   : FF_OK;
}

static ff_status open_output(pack *job, const char *parent, ff_error *error) {
    const ff_arguments *arguments = job->run.recipe->arguments;
    if (!arguments->output) return FF_OK;
    FF_TRY(ff_run_check_apart(&job->run, parent, error));
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

static ff_status run_in(pack *job, const char *parent, ff_error *error) {
    const ff_arguments *arguments = job->run.recipe->arguments;
    ff_report *report = job->run.report;
    const char *temporary = parent;
    if (arguments->dry_run) {
        temporary = getenv("TMPDIR");
        if (!temporary || !*temporary) temporary = "/tmp";
    }
    FF_TRY(ff_run_open(&job->run, temporary, error));
    FF_TRY(open_output(job, parent, error));
    FF_TRY(ff_run_list(&job->run, error));
    FF_TRY(find_statistics(job, error));
    for (size_t i = 0; i < job->run.source->split_count; i++) {
        ff_report_split *split;
        FF_TRY(ff_report_add_split(report, &split, error));
        FF_TRY(describe(job, &job->run.source->split[i], split, error));
        if (report->dry_run) estimate(&job->run.recipe->part, split);
    }
    return report->dry_run ? FF_OK : pack_all(job, error);
}

ff_status ff_pack_run(const ff_recipe *recipe, const ff_pack_options *options, ff_report *report,
                      ff_error *error) {
    pack job = {.run = {.recipe = recipe, .options = options, .report = report}};
    const ff_arguments *arguments = recipe->arguments;
    uint64_t began_ns = ff_now_ns();
    char *parent = NULL;
    report->dry_run = arguments->dry_run;
    report->part = recipe->part;
    ff_status status = ff_copy_string(&report->source, arguments->source, error);
    if (status == FF_OK && arguments->output)
        status = ff_copy_string(&report->output, arguments->output, error);
    if (status == FF_OK)
        status = ff_run_parent(&parent, arguments->output ? arguments->output : "", error);
    if (status == FF_OK) status = run_in(&job, parent, error);
    ff_output_close(&job.output);
    ff_run_close(&job.run);
    free(parent);
    report->seconds = (double)(ff_now_ns() - began_ns) * 1e-9;
    return status;
}
