#include "tools/ffpack/measure.h"

#include "format/base/interrupt.h"
#include "format/base/progress.h"
#include "tools/ffpack/image/stats.h"
#include "tools/ffpack/pipeline.h"

#include <stdio.h>
#include <stdlib.h>

enum { UNIT_BYTES = 1 << 20, SLOTS_A_JOB = 4 };

typedef struct worker {
    ff_sampler *sampler;
    ff_stats *stats;
} worker;

typedef struct measure {
    const ff_sample_plan *plan;
    const ff_source_split *split;
    ff_stream *stream;
    uint64_t count, per_unit;
    bool skip;
    worker *worker;
    uint64_t done;
    ff_progress progress;
} measure;

static ff_status measure_unit(measure *job, worker *own, uint64_t first, ff_error *error) {
    if (!own->sampler)
        FF_TRY(ff_sampler_create(&own->sampler, job->plan, job->split, job->stream, error));
    if (!own->stats) FF_TRY(ff_stats_create(&own->stats, job->plan->channels, error));
    uint64_t end = first + job->per_unit;
    if (end > job->count) end = job->count;
    FF_TRY(ff_sampler_begin(own->sampler, first, end, error));
    for (uint64_t position = first; position < end; position++) {
        ff_sample sample;
        uint64_t item = ff_source_item_at(job->split, position);
        ff_status status = ff_sampler_make(own->sampler, item, &sample, error);
        if (status != FF_OK && job->skip && ff_sample_skippable(&sample, status)) continue;
        FF_TRY(status);
        size_t pixels = (size_t)sample.height * sample.width;
        if (job->plan->values == FF_VALUES_U16)
            ff_stats_add_u16(own->stats, sample.values, sample.planar, pixels);
        else if (sample.planar)
            ff_stats_add_planar(own->stats, sample.values, pixels);
        else
            ff_stats_add_interleaved(own->stats, sample.values, pixels);
    }
    return FF_OK;
}

static ff_status measure_make(void *context, int index, size_t slot, uint64_t number,
                              ff_error *error) {
    (void)slot;
    measure *job = context;
    uint64_t first = number * job->per_unit;
    ff_status status = measure_unit(job, &job->worker[index], first, error);
    if (status != FF_OK) ff_stream_stop(job->stream, first);
    return status;
}

static ff_status measure_take(void *context, size_t slot, uint64_t number, ff_error *error) {
    (void)slot;
    (void)error;
    measure *job = context;
    job->done = (number + 1) * job->per_unit;
    if (job->done > job->count) job->done = job->count;
    return FF_OK;
}

static ff_status measure_watch(void *context, ff_error *error) {
    measure *job = context;
    ff_progress_update(&job->progress, job->done, NULL);
    return ff_interrupt_check(error);
}

ff_status ff_measure(const ff_sample_plan *plan, const ff_source_split *split, int jobs, bool skip,
                     bool quiet, float *mean, float *std, ff_error *error) {
    measure job = {
        .plan = plan, .split = split, .count = ff_listing_count(split->listing), .skip = skip};
    uint64_t bytes = (uint64_t)plan->channels * plan->height * plan->width;
    job.per_unit = bytes < UNIT_BYTES ? UNIT_BYTES / bytes : 1;
    FF_TRY(ff_alloc(&job.worker, (uint64_t)jobs, sizeof *job.worker, "workers", error));
    ff_status status = ff_stream_create(&job.stream, plan->source, split, 0, error);
    char title[300];
    snprintf(title, sizeof title, "measuring%s%s", *split->name ? " " : "", split->name);
    ff_progress_begin(&job.progress, title, "items", job.count, quiet);
    ff_pipeline pipeline = {.end = (job.count + job.per_unit - 1) / job.per_unit,
                            .jobs = jobs,
                            .slot_count = (size_t)jobs * SLOTS_A_JOB,
                            .context = &job,
                            .make = measure_make,
                            .take = measure_take,
                            .watch = measure_watch};
    if (status == FF_OK) status = ff_pipeline_run(&pipeline, error);
    ff_progress_end(&job.progress);
    ff_stats *total = NULL;
    if (status == FF_OK) status = ff_stats_create(&total, plan->channels, error);
    for (int i = 0; i < jobs; i++) {
        if (status == FF_OK && job.worker[i].stats) ff_stats_merge(total, job.worker[i].stats);
        ff_stats_destroy(&job.worker[i].stats);
        ff_sampler_destroy(&job.worker[i].sampler);
    }
    if (status == FF_OK) {
        status = plan->values == FF_VALUES_U16
                     ? ff_stats_finish_range(total, plan->low, plan->high, mean, std, error)
                     : ff_stats_finish(total, mean, std, error);
        if (status != FF_OK)
            ff_fail_within(error, status, "--stats compute: %s%s%s", plan->source->path,
                           *split->name ? ", split " : "", split->name);
    }
    ff_stats_destroy(&total);
    ff_stream_destroy(&job.stream);
    free(job.worker);
    return status;
}
