#include "tools/ffpack/pack/pack.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "format/disk/layout.h"
#include "format/writer/output.h"
#include "format/writer/pending.h"
#include "tools/ffpack/bucket/ship.h"
#include "tools/ffpack/pack/check.h"
#include "tools/ffpack/pack/finishing.h"
#include "tools/ffpack/pack/statistics.h"
#include "tools/ffpack/pack/tried.h"
#include "tools/ffpack/pack/unchanged.h"
#include "tools/ffpack/parts/part_skips.h"
#include "tools/ffpack/run/describe.h"
#include "tools/ffpack/run/run.h"
#include "tools/ffpack/run/space.h"
#include "tools/ffpack/split/emptied.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct pack {
    ff_run run;
    ff_output *output;
    uint8_t source_id[16]; /* with --if-changed (unchanged.h) */
    /* A split whose end is being committed: its number and folder; NULL = none. */
    ff_finishing finishing;
    size_t finished;
    char *directory;
    /* If OUT is a URL: */
    ff_ship *ship;
    ff_ship_options shipping;
} pack;

/* ---- the output ---------------------------------------------------------------------------- */

static ff_status split_names(const pack *job, const char ***name, ff_error *error) {
    const ff_source *source = job->run.source;
    FF_TRY(ff_alloc(name, source->split_count, sizeof **name, "splits", error));
    for (size_t i = 0; i < source->split_count; i++) (*name)[i] = source->split[i].name;
    return FF_OK;
}

/* Files left by an interrupted run must belong to splits that this run writes: others would end up
 * in OUT. */
static ff_status check_leftovers(const pack *job, const char *partial, ff_error *error) {
    const ff_source *source = job->run.source;
    const char **name;
    FF_TRY(split_names(job, &name, error));
    ff_status status = ff_run_check_leftovers(partial, name, source->split_count, error);
    free(name);
    return status;
}

static void tell(void *context, const char *sentence) {
    ff_notice(context, "%s", sentence);
}

/* OUT is a URL: what is there is looked at before anything is packed. */
static ff_status open_ship(pack *job, const char *partial, ff_error *error) {
    const char **name;
    FF_TRY(split_names(job, &name, error));
    job->shipping = (ff_ship_options){.url = job->run.settings->url,
                                      .partial = partial,
                                      .split = name,
                                      .splits = job->run.source->split_count,
                                      .part = &job->run.settings->part,
                                      .force = job->run.settings->force,
                                      .storage.check = ff_interrupt_check,
                                      .tell = tell,
                                      .context = (void *)(uintptr_t)job->run.options};
    return ff_ship_open(&job->ship, &job->shipping, error);
}

static ff_status ship_shard(void *context, const char *directory, const char *split,
                            uint32_t number, ff_error *error) {
    return ff_ship_shard(context, directory, split, number, error);
}

/* The set gets its place: a folder its name, a bucket the indexes. */
static ff_status finish(pack *job, ff_error *error) {
    ff_report *report = job->run.report;
    const char *path = ff_skipped_path(job->run.skipped);
    const bool skipped = access(path, F_OK) == 0;
    if (!job->ship) {
        FF_TRY(ff_output_commit(job->output, error));
        return skipped ? ff_copy_string(&report->skipped_path, path, error) : FF_OK;
    }
    FF_TRY(ff_ship_finish(job->ship, path, error));
    FF_TRY(ff_output_remove(job->output, error));
    ff_part_skips_forget(&job->run);
    if (!skipped) return FF_OK;
    (void)unlink(path);
    return ff_path_join(&report->skipped_path, job->run.settings->url, FF_SKIPPED_OBJECT, error);
}

/* ---- splits -------------------------------------------------------------------------------- */

/* All splits, with the mean and std known so far. */
static ff_status describe_all(pack *job, ff_error *error) {
    const ff_source *source = job->run.source;
    ff_report *report = job->run.report;
    for (size_t i = 0; i < source->split_count; i++) {
        ff_report_split *split = &report->split[i];
        ff_metadata_free(&split->metadata);
        FF_TRY(ff_describe_split(&split->metadata, job->run.settings, &job->run.plan,
                                 &source->split[i], job->run.mean, job->run.std,
                                 report->statistics_origin, error));
    }
    return FF_OK;
}

static ff_status report_splits(pack *job, ff_error *error) {
    const ff_source *source = job->run.source;
    const char *output = job->run.report->output;
    for (size_t i = 0; i < source->split_count; i++) {
        const char *name = source->split[i].name;
        ff_report_split *split;
        FF_TRY(ff_report_add_split(job->run.report, &split, error));
        if (output)
            FF_TRY(*name ? ff_path_join(&split->directory, output, name, error)
                         : ff_copy_string(&split->directory, output, error));
    }
    FF_TRY(describe_all(job, error));
    for (size_t i = 0; i < source->split_count; i++)
        ff_space_estimate(&job->run.report->split[i],
                          ff_listing_key_bytes(source->split[i].listing), &job->run.settings->part);
    return FF_OK;
}

/* If items were left out, no class may have lost all of its items, unless --max-skip is set. */
static ff_status check_classes(const pack *job, size_t number, const char *directory,
                               ff_error *error) {
    ff_report_split *report = &job->run.report->split[number];
    if (job->run.settings->part.count || report->items == report->result.sample_count) return FF_OK;
    ff_error lost = {0};
    json_t *counts;
    ff_status status =
        ff_emptied_count(&counts, &job->run.source->split[number], &report->metadata, &lost);
    if (status == FF_OK) status = ff_emptied_check(counts, directory, &lost);
    json_decref(counts);
    if (status == FF_BAD_DATA && job->run.settings->max_skip.given) {
        ff_notice(job->run.options, "%s", lost.message);
        return FF_OK;
    }
    report->lost_too_much = status == FF_BAD_DATA;
    if (status != FF_OK && error) *error = lost;
    return status;
}

static ff_status end_split(const pack *job, size_t number, const char *directory, ff_error *error) {
    const ff_settings *settings = job->run.settings;
    FF_TRY(check_classes(job, number, directory, error));
    return ff_history_begin(directory, &settings->history, settings->path, NULL, 0, error);
}

/* Ends the split that is being finished, if there is one. */
static ff_status wait_for_split(pack *job, ff_error *error) {
    if (!job->directory) return FF_OK;
    ff_status status;
    FF_TRY_DONE(ff_finishing_wait(&job->finishing, error));
    FF_TRY_DONE(end_split(job, job->finished, job->directory, error));
done:
    free(job->directory);
    job->directory = NULL;
    return status;
}

/* The split of which mean and std are computed: packed with stand-ins, then completed. */
static ff_status pack_counted(pack *job, ff_pack_split *packing, ff_finishing *end,
                              ff_error *error) {
    FF_TRY(ff_metadata_write(&packing->report->metadata, &end->stand_in, error));
    FF_TRY(ff_statistics_pack(&job->run, packing, error));
    FF_TRY(describe_all(job, error));
    if (end->writer) return FF_OK;
    /* An interrupted run has begun to complete it. */
    FF_TRY(ff_pending_complete(packing->directory, &end->stand_in, &packing->report->metadata,
                               false, error));
    end->stand_in.length = 0;
    return ff_run_split(&job->run, packing, error);
}

/* Packs a split, and leaves its end to a thread. */
static ff_status pack_split(pack *job, const char *partial, size_t number, ff_error *error) {
    ff_run *run = &job->run;
    ff_report_split *report = &run->report->split[number];
    ff_part part = run->settings->part;
    part.split = (uint32_t)number;
    part.splits = (uint32_t)run->source->split_count;
    ff_pack_split packing = {.split = &run->source->split[number],
                             .part = part.count ? &part : NULL,
                             .partial = partial,
                             .report = report};
    if (job->ship) packing.committed = ship_shard, packing.context = job->ship;
    FF_TRY(ff_output_split(job->output, packing.split->name, &packing.directory, error));
    const bool counts = run->report->pass == FF_PASS_WHILE_PACKING;
    if (part.count || job->ship) {
        FF_TRY(counts ? ff_statistics_pack_part(run, &packing, error)
                      : ff_run_split(run, &packing, error));
        return end_split(job, number, packing.directory, error);
    }
    ff_finishing end = {.metadata = &report->metadata, .result = &report->result};
    packing.rest = &end.writer;
    ff_status status;
    FF_TRY_DONE(counts && packing.split == run->counted ? pack_counted(job, &packing, &end, error)
                                                        : ff_run_split(run, &packing, error));
    FF_TRY_DONE(wait_for_split(job, error));
    FF_TRY_DONE(ff_copy_string(&job->directory, packing.directory, error));
    end.directory = job->directory;
    job->finishing = end;
    job->finished = number;
    return ff_finishing_start(&job->finishing, error);
done:
    ff_writer_close(&end.writer);
    ff_buffer_free(&end.stand_in);
    return status;
}

/* The first split that fails is the one to report: a split ends before the next one does. */
static ff_status pack_splits(pack *job, const char *partial, ff_error *error) {
    ff_status status = FF_OK;
    ff_error earlier = {0};
    for (size_t i = 0; status == FF_OK && i < job->run.source->split_count; i++)
        status = pack_split(job, partial, i, error);
    const ff_status ended = wait_for_split(job, &earlier);
    if (ended != FF_OK && error) *error = earlier;
    return ended != FF_OK ? ended : status;
}

/* A note for a part that makes the whole pass itself. */
static void notice_pass(const pack *job) {
    const ff_report *report = job->run.report;
    if (!report->part.count || report->shares) return;
    ff_notice(
        job->run.options,
        "mean and std: each part first reads all of %s for them; to avoid that: --stats-from, "
        "--normalize, --mean with --std, --stats-sample, or parts called OUT.part-I-of-N, "
        "which share the pass",
        ff_say_count(report->statistics_items, "item", "items").text);
}

static ff_status pack_all(pack *job, ff_error *error) {
    ff_source *source = job->run.source;
    const ff_settings *settings = job->run.settings;
    ff_report *report = job->run.report;
    const char *partial;
    FF_TRY(ff_output_split(job->output, "", &partial, error));
    FF_TRY(check_leftovers(job, partial, error));
    if (settings->url) FF_TRY(open_ship(job, partial, error));
    if (report->pass == FF_PASS_BEFORE) {
        const ff_metadata *metadata = &report->split[job->run.counted - source->split].metadata;
        notice_pass(job);
        FF_TRY(ff_statistics_measure(&job->run, partial, metadata, error));
        FF_TRY(describe_all(job, error));
    }
    FF_TRY(ff_skipped_open(&job->run.skipped, settings->output, ff_output_continues(job->output),
                           error));
    FF_TRY(pack_splits(job, partial, error));
    if (settings->part.count) FF_TRY(ff_part_skips_write(&job->run, error));
    if (settings->if_changed)
        FF_TRY(ff_unchanged_write(partial, settings->output, job->source_id, error));
    return finish(job, error);
}

/* A part found by a job that runs again: it must equal what this run would pack, except for
 * computed mean and std. */
static ff_status check_whole(pack *job, size_t number, ff_error *error) {
    ff_run *run = &job->run;
    const char *folder = run->report->split[number].directory;
    ff_part part;
    ff_metadata metadata = {0};
    ff_buffer found = {0}, wanted = {0};
    ff_status status;
    FF_TRY_DONE(ff_part_read(&part, folder, &found, error));
    FF_TRY_DONE(ff_metadata_read(&metadata, found.bytes, found.length, error));
    for (uint32_t i = 0; run->counted && i < metadata.statistics_count && i < run->plan.channels;
         i++) {
        run->mean[i] = metadata.mean[i];
        run->std[i] = metadata.std[i];
    }
    FF_TRY_DONE(describe_all(job, error));
    FF_TRY_DONE(ff_metadata_write(&run->report->split[number].metadata, &wanted, error));
    FF_TRY_DONE(ff_metadata_compare(folder, &found, &wanted, error));
done:
    ff_buffer_free(&wanted);
    ff_buffer_free(&found);
    ff_metadata_free(&metadata);
    if (status != FF_USAGE) return status;
    return ff_fail_within(error, status,
                          "%s: exists already, of other options or another source; "
                          "--force replaces it",
                          run->settings->output);
}

static ff_status open_output(pack *job, const char *parent, ff_error *error) {
    const ff_settings *settings = job->run.settings;
    if (!settings->output) return FF_OK;
    FF_TRY(ff_run_check_apart(&job->run, parent, error));
    struct stat info;
    if (!settings->dry_run) {
        if (!settings->resume) FF_TRY(ff_make_folders(parent, error));
        FF_TRY(ff_output_open(&job->output, settings->output,
                              settings->resume ? FF_OUTPUT_CONTINUE : FF_OUTPUT_NEW_OR_CONTINUE,
                              settings->force, error));
        job->run.report->opened = true;
        if (ff_output_unlocked(job->output))
            ff_notice(job->run.options, FF_UNLOCKED, settings->output);
        if (settings->part.count) ff_part_forget_failure(settings->output);
        return FF_OK;
    }
    if (!settings->force && lstat(settings->output, &info) == 0)
        return ff_fail(error, FF_USAGE, "%s: exists already; --force replaces it",
                       settings->output);
    return FF_OK;
}

static ff_status run_in(pack *job, const char *parent, ff_error *error) {
    const ff_settings *settings = job->run.settings;
    ff_report *report = job->run.report;
    const char *temporary = parent;
    if (settings->dry_run) {
        temporary = getenv("TMPDIR");
        if (!temporary || !*temporary) temporary = "/tmp";
    }
    report->kept = settings->part_origin && !settings->force && !settings->dry_run &&
                   ff_path_exists("%s", settings->output);
    /* OUT may prove unchanged, so it is opened later. */
    const bool late = settings->if_changed && settings->output &&
                      ff_path_exists("%s/" FF_SOURCE_STATE_NAME, settings->output);
    /* An OUT that exists is refused before anything is fetched. */
    const bool first = ff_is_elsewhere(settings->path), opens = !report->kept && !late;
    if (first && opens) FF_TRY(open_output(job, parent, error));
    FF_TRY(ff_run_open(&job->run, temporary, error));
    if (!first && opens) FF_TRY(open_output(job, parent, error));
    FF_TRY(ff_run_list(&job->run, error));
    if (settings->decode) FF_TRY(ff_check_items(&job->run, error));
    if (settings->check) return FF_OK;
    if (settings->dry_run && !settings->decode) FF_TRY(ff_tried_items(&job->run, error));
    FF_TRY(ff_statistics_plan(&job->run, error));
    FF_TRY(report_splits(job, error));
    for (size_t i = 0; report->kept && i < report->split_count; i++)
        FF_TRY(check_whole(job, i, error));
    if (settings->if_changed) FF_TRY(ff_unchanged_source(&job->run, job->source_id, error));
    if (late)
        FF_TRY(ff_unchanged_check(settings->output, job->source_id, &report->unchanged, error));
    if (report->kept || report->unchanged) return FF_OK;
    if (late) FF_TRY(open_output(job, parent, error));
    if (report->output && !settings->url)
        FF_TRY(ff_space_check(report, parent, job->output ? ff_output_bytes(job->output) : 0,
                              report->dry_run ? NULL : job->run.options, error));
    return report->dry_run ? FF_OK : pack_all(job, error);
}

ff_status ff_pack_run(const ff_settings *settings, const ff_notices *options, ff_report *report,
                      ff_error *error) {
    ff_settings own = *settings; /* with the folder for what goes to a URL */
    pack job = {.run = {.settings = &own, .options = options, .report = report}};
    uint64_t began_ns = ff_now_ns();
    char *parent = NULL;
    report->dry_run = settings->dry_run;
    report->exif = settings->exif;
    report->checked_only = settings->check;
    report->part = settings->part;
    ff_status status;
    FF_TRY_DONE(ff_source_shown(&report->source, settings->path, error));
    const char *output = settings->url ? settings->url : settings->output;
    if (output) FF_TRY_DONE(ff_copy_string(&report->output, output, error));
    if (settings->url && !settings->dry_run) {
        FF_TRY_DONE(ff_ship_place(&report->built_in, settings->url, &settings->part, error));
        own.output = report->built_in;
    }
    FF_TRY_DONE(ff_run_parent(&parent, own.output ? own.output : "", error));
    FF_TRY_DONE(run_in(&job, parent, error));
done:
    ff_ship_close(&job.ship);
    free((void *)(uintptr_t)job.shipping.split);
    ff_output_close(&job.output);
    ff_run_close(&job.run);
    if (report->built_in) (void)rmdir(parent); /* if nothing is kept */
    free(parent);
    report->seconds = (double)(ff_now_ns() - began_ns) * 1e-9;
    return status;
}
