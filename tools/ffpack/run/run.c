#include "tools/ffpack/run/run.h"

#include "format/base/path.h"
#include "format/cli/say.h"
#include "format/disk/layout.h"
#include "tools/ffpack/run/describe.h"
#include "tools/ffpack/split/content.h"

#include <stdlib.h>
#include <string.h>

ff_status ff_run_parent(char **parent, const char *output, ff_error *error) {
    size_t length = (size_t)(ff_path_base(output) - output);
    if (!length) return ff_copy_string(parent, ".", error);
    return ff_format(parent, error, "%.*s", (int)length, output);
}

ff_status ff_run_open(ff_run *job, const char *temporary, ff_error *error) {
    ff_source_options options = job->settings->source;
    options.temporary = temporary;
    return ff_source_open(&job->source, job->settings->path, &options, error);
}

ff_status ff_run_check_apart(const ff_run *job, const char *parent, ff_error *error) {
    const ff_source *source = job->source;
    if (!source || strcmp(source->format->name, "folder") != 0) return FF_OK;
    bool within;
    FF_TRY(ff_path_lies_in(&within, parent, source->path, error));
    if (!within) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "-o: the output would lie in the source folder %s; wanted "
                   "another place",
                   source->path);
}

static bool is_named(const char *wanted, const char *const *name, size_t count) {
    bool found = false;
    for (size_t i = 0; i < count; i++) found |= !strcmp(wanted, name[i]);
    return found;
}

ff_status ff_run_check_leftovers(const char *partial, const char *const *name, size_t count,
                                 ff_error *error) {
    ff_names names;
    FF_TRY(ff_names_read(&names, partial, NULL, error));
    ff_status status = FF_OK;
    const bool alone = count == 1 && !*name[0];
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        const char *found = ff_names_at(&names, i);
        bool shard = !strncmp(found, "shard-", 6) || !strncmp(found, "index.", 6) ||
                     !strncmp(found, "part.", 5) || !strncmp(found, "sums.", 5) ||
                     !strncmp(found, FF_HISTORY_NAME, sizeof FF_HISTORY_NAME - 1);
        if (!strncmp(found, FF_MEASURED_NAME, strlen(FF_MEASURED_NAME)) ||
            !strncmp(found, FF_SOURCE_STATE_NAME, strlen(FF_SOURCE_STATE_NAME)))
            continue;
        if (alone ? shard : is_named(found, name, count)) continue;
        status = ff_fail(error, FF_USAGE,
                         "%s/%s: left by an earlier run with other options or another source; "
                         "remove %s to start over",
                         partial, found, partial);
    }
    ff_names_free(&names);
    return status;
}

/* A random order needs random access. */
static ff_status check_shuffle(const ff_run *job, ff_error *error) {
    for (size_t i = 0; i < job->source->split_count; i++)
        if (job->source->split[i].order && job->settings->shuffled)
            return ff_fail(error, FF_USAGE,
                           "--shuffle: %s can only be read from front to back; wanted the archive "
                           "as an uncompressed tar, or its files in a folder",
                           job->source->path);
    return FF_OK;
}

/* Compares the properties that --like RUN leaves to the source, because RUN records no option that
 * sets them. */
static ff_status check_like(const ff_run *job, ff_error *error) {
    const ff_settings *settings = job->settings;
    const ff_sample_plan *plan = &job->plan;
    const uint32_t height = settings->like_height, width = settings->like_width;
    if (settings->like_channels && settings->like_channels != plan->channels)
        return ff_fail(
            error, FF_USAGE, "--like: samples of %s have %s, but samples of %s would have %u",
            settings->like, ff_say_count(settings->like_channels, "channel", "channels").text,
            job->source->path, plan->channels);
    if (plan->variable || !height || (height == plan->height && width == plan->width)) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "--like: samples of %s have %ux%u, but samples of %s would have %ux%u; add "
                   "--resize %ux%u",
                   settings->like, height, width, job->source->path, plan->height, plan->width,
                   height, width);
}

ff_status ff_run_list(ff_run *job, ff_error *error) {
    FF_TRY(ff_source_list(job->source, error));
    job->report->left_out = job->source->left_out;
    job->report->notes = job->source->notes;
    job->source->left_out = (ff_left_out){0};
    job->source->notes = (ff_names){0};
    if (job->source->rule)
        FF_TRY(ff_copy_string(&job->report->split_rule, job->source->rule->text, error));
    FF_TRY(check_shuffle(job, error));
    const bool hashed = !job->settings->dry_run || job->settings->if_changed;
    for (size_t i = 0; hashed && i < job->source->split_count; i++)
        if (!job->source->split[i].order)
            FF_TRY(ff_content_add(job->source, &job->source->split[i], job->settings->jobs,
                                  job->settings->skip, error));
    job->report->kind = job->source->kind;
    FF_TRY(ff_sample_plan_make(&job->plan, job->source, job->settings, error));
    return check_like(job, error);
}

ff_status ff_run_split(ff_run *job, ff_pack_split *packing, ff_error *error) {
    if (!job->transform) {
        ff_transform_spec spec =
            ff_describe_transform(job->settings, &job->plan, job->mean, job->std);
        FF_TRY(ff_transform_create(&job->transform, &spec, error));
    }
    packing->settings = job->settings;
    packing->options = job->options;
    packing->plan = &job->plan;
    packing->transform = job->transform;
    packing->skipped = job->skipped;
    return ff_pack_split_run(packing, error);
}

void ff_run_close(ff_run *job) {
    ff_skipped_close(&job->skipped);
    ff_transform_destroy(&job->transform);
    ff_sample_plan_free(&job->plan);
    ff_source_close(&job->source);
    free(job->mean);
    free(job->std);
}
