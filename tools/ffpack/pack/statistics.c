#include "tools/ffpack/pack/statistics.h"

#include "format/base/path.h"
#include "format/base/thread.h"
#include "format/cli/say.h"
#include "format/disk/shard.h"
#include "format/writer/pending.h"
#include "tools/ffpack/parts/part_counts.h"
#include "tools/ffpack/split/measure.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- planning ------------------------------------------------------------------------------ */

/* The split whose statistics are used for all: train, or the only one. */
static ff_status find_train(const ff_source *source, const ff_source_split **split,
                            ff_error *error) {
    *split = source->split_count == 1 ? &source->split[0] : ff_source_find(source, "train");
    if (*split) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s: has no split train to compute statistics from (its first is %s); wanted "
                   "--mean with --std, or --stats-from",
                   source->path, source->split[0].name);
}

/* Statistics in the range 0 to 255 are the most common mistake. Arrays of floats may have any
 * range. */
static ff_status check_scale(const ff_run *run, ff_error *error) {
    const ff_settings *settings = run->settings;
    if (run->plan.values == FF_VALUES_FLOAT && !run->plan.ranged) return FF_OK;
    for (uint32_t i = 0; i < settings->statistics_count; i++) {
        bool mean = settings->mean[i] > 1;
        double value = (double)(mean ? settings->mean[i] : settings->std[i]);
        if (value > 1)
            return ff_fail(error, FF_USAGE,
                           "--%s: %g is above 1, wanted values from 0 to 1; divide by 255 "
                           "(%.4g)",
                           mean ? "mean" : "std", value, value / 255);
    }
    return FF_OK;
}

/* Checks that there is one for each of the source's channels. */
static ff_status check_count(const ff_run *run, ff_error *error) {
    const ff_settings *settings = run->settings;
    const uint32_t count = settings->statistics_count, channels = run->plan.channels;
    const char *from = settings->stats_from;
    if (!count || count == channels) return FF_OK;
    if (!from)
        from =
            strcmp(settings->statistics_origin, "given") ? settings->statistics_origin : "--mean";
    return ff_fail(error, FF_USAGE, "%s has %s of mean and std, but %s has %s", from,
                   ff_say_count(count, "value", "values").text, run->source->path,
                   ff_say_count(channels, "channel", "channels").text);
}

static ff_status take_known(ff_run *run, ff_error *error) {
    const ff_settings *settings = run->settings;
    bool given = settings->statistics == FF_STATISTICS_GIVEN;
    uint32_t channels = run->plan.channels;
    FF_TRY(check_count(run, error));
    if (given) FF_TRY(check_scale(run, error));
    memcpy(run->mean, settings->mean, channels * sizeof *run->mean);
    memcpy(run->std, settings->std, channels * sizeof *run->std);
    run->report->statistics_known = true;
    return ff_copy_string(&run->report->statistics_origin, settings->statistics_origin, error);
}

/* Raw values do not need mean and std, and can be counted while they are packed: by one run before
 * it packs the other splits, by parts before a merge completes all splits. */
static ff_status plan_pass(ff_run *run, ff_error *error) {
    const ff_settings *settings = run->settings;
    ff_report *report = run->report;
    FF_TRY(find_train(run->source, &run->counted, error));
    uint64_t items = ff_listing_count(run->counted->listing);
    uint64_t sample = settings->stats_sample;
    const char *name = *run->counted->name ? run->counted->name : "all items";
    run->stats_sample = sample < items ? sample : 0;
    report->statistics_items = run->stats_sample ? run->stats_sample : items;
    report->pass = FF_PASS_BEFORE;
    /* A shard that is sent to a bucket when it is whole cannot wait for them. */
    if (!settings->url && !run->stats_sample && !ff_dtype_is_float(settings->dtype) &&
        (settings->part.count || run->counted == &run->source->split[0]))
        report->pass = FF_PASS_WHILE_PACKING;
    report->shares = report->pass == FF_PASS_BEFORE && settings->part.count && settings->output &&
                     ff_part_base_length(settings->output, &settings->part);
    for (uint32_t i = 0; i < run->plan.channels; i++) run->std[i] = 1;
    if (!run->stats_sample)
        return ff_format(&report->statistics_origin, error, "computed from %s", name);
    return ff_format(&report->statistics_origin, error,
                     "computed from the first %" PRIu64 " of %s in the order of --shuffle 0",
                     run->stats_sample, name);
}

ff_status ff_statistics_plan(ff_run *run, ff_error *error) {
    const ff_settings *settings = run->settings;
    bool asked = settings->statistics == FF_STATISTICS_COMPUTE;
    bool compute = asked || settings->statistics == FF_STATISTICS_DEFAULT;
    /* Floats and scaled integers are normalized only on request. */
    if (compute && !asked && run->plan.values != FF_VALUES_U8 && ff_dtype_is_float(settings->dtype))
        return ff_copy_string(&run->report->statistics_origin, "none", error);
    if (compute && run->plan.values == FF_VALUES_FLOAT)
        return ff_fail(error, FF_USAGE,
                       "--stats compute: counts u8 and u16 values, and %s holds %s; wanted --mean "
                       "with --std, or neither",
                       run->source->path, ff_element_name(run->source->raw.element));
    uint32_t channels = run->plan.channels;
    FF_TRY(ff_alloc(&run->mean, channels, sizeof *run->mean, "statistics", error));
    FF_TRY(ff_alloc(&run->std, channels, sizeof *run->std, "statistics", error));
    return compute ? plan_pass(run, error) : take_known(run, error);
}

/* ---- computing ----------------------------------------------------------------------------- */

/* Computes them in a run that makes the whole pass itself. */
static ff_status measure_all(ff_run *run, const ff_measure_job *job, const char *partial,
                             ff_stats *total, ff_error *error) {
    const char *name = run->counted->name;
    char *title, *path;
    FF_TRY(ff_format(&title, error, "measuring%s%s", *name ? " " : "", name));
    const ff_measure_range all = {.end = ff_listing_count(run->counted->listing),
                                  .directory = partial,
                                  .name = FF_MEASURED_NAME,
                                  .title = title};
    ff_status status = ff_measure(job, &all, total, &run->report->statistics_items, error);
    free(title);
    FF_TRY(status);
    status = ff_measure_finish(&run->plan, run->counted, total, run->mean, run->std, error);
    /* Useless sums are not kept. */
    if (status != FF_OK && ff_path_join(&path, partial, FF_MEASURED_NAME, NULL) == FF_OK) {
        unlink(path);
        free(path);
    }
    return status;
}

ff_status ff_statistics_measure(ff_run *run, const char *partial, const ff_metadata *metadata,
                                ff_error *error) {
    const ff_settings *settings = run->settings;
    ff_report *report = run->report;
    ff_buffer text = {0};
    ff_stats *total = NULL;
    const ff_measure_job job = {.plan = &run->plan,
                                .split = run->counted,
                                .jobs = settings->jobs,
                                .skip = settings->skip,
                                .sample = run->stats_sample,
                                .basis = &text};
    const uint64_t began_ns = ff_now_ns();
    ff_status status;
    report->statistics_items = 0;
    FF_TRY_DONE(ff_metadata_write(metadata, &text, error));
    FF_TRY_DONE(ff_stats_create(&total, run->plan.channels, error));
    if (report->shares) {
        FF_TRY_DONE(ff_part_counts_take(&job, settings, total, &report->statistics_items, error));
        FF_TRY_DONE(ff_measure_finish(&run->plan, run->counted, total, run->mean, run->std, error));
    } else {
        FF_TRY_DONE(measure_all(run, &job, partial, total, error));
    }
done:
    ff_stats_destroy(&total);
    ff_buffer_free(&text);
    report->statistics_seconds = (double)(ff_now_ns() - began_ns) * 1e-9;
    report->statistics_known = status == FF_OK;
    return status;
}

/* Takes mean and std from the first shard, if an interrupted run has completed it. */
static ff_status take_recorded(ff_run *run, const char *directory, bool *found, ff_error *error) {
    char name[32], *path;
    ff_shard_name(name, 0);
    FF_TRY(ff_path_join(&path, directory, name, error));
    *found = access(path, F_OK) == 0;
    free(path);
    if (!*found) return FF_OK;
    ff_shard shard;
    ff_buffer text = {0};
    ff_metadata metadata = {0};
    FF_TRY(ff_shard_open(&shard, directory, 0, error));
    ff_status status;
    FF_TRY_DONE(ff_shard_metadata_text(&shard, &text, error));
    FF_TRY_DONE(ff_metadata_read(&metadata, text.bytes, text.length, error));
done:
    /* A shard of another set is refused when its text is compared. */
    for (uint32_t i = 0; i < run->plan.channels && i < metadata.statistics_count; i++) {
        run->mean[i] = metadata.mean[i];
        run->std[i] = metadata.std[i];
    }
    ff_metadata_free(&metadata);
    ff_buffer_free(&text);
    ff_shard_close(&shard);
    return status;
}

ff_status ff_statistics_pack(ff_run *run, ff_pack_split *packing, ff_error *error) {
    bool found;
    FF_TRY(take_recorded(run, packing->directory, &found, error));
    if (!found) {
        packing->pending = true;
        FF_TRY(ff_stats_create(&packing->sums, run->plan.channels, error));
        ff_status status = ff_run_split(run, packing, error);
        if (status == FF_OK) {
            status = ff_measure_finish(&run->plan, run->counted, packing->sums, run->mean, run->std,
                                       error);
            /* Without mean and std the pending shards cannot be completed. */
            if (status != FF_OK) (void)!ff_pending_remove(packing->directory, NULL);
        }
        packing->pending = false;
        ff_stats_destroy(&packing->sums);
        FF_TRY(status);
    }
    run->report->statistics_known = true;
    ff_transform_destroy(&run->transform);
    return FF_OK;
}

ff_status ff_statistics_pack_part(ff_run *run, ff_pack_split *packing, ff_error *error) {
    packing->pending = true;
    if (packing->split == run->counted)
        FF_TRY(ff_stats_create(&packing->sums, run->plan.channels, error));
    const ff_status status = ff_run_split(run, packing, error);
    ff_stats_destroy(&packing->sums);
    return status;
}
