#include "tools/ffpack/split/measure.h"

#include "format/base/path.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "format/disk/kept.h"
#include "tools/ffpack/split/pipeline.h"
#include "tools/ffpack/split/shuffle.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A worker's unit: for arrays the samples that fit into a mebibyte. For images few, because the
 * cost of decoding is unknown: for small images the handoff still pays, and a photograph takes up
 * to a tenth of a second. */
enum { UNIT_BYTES = 1 << 20, UNIT_IMAGES = 16, SLOTS_A_JOB = 4 };

/* The most work lost to a kill. */
#define KEEP_NS 2000000000u

typedef struct measure {
    const ff_measure_job *job;
    const ff_measure_range *range;
    ff_stream *stream;
    uint64_t begun, per_unit; /* positions; units are numbered from `begun` */
    uint64_t fresh;           /* items of the sample, of the positions done in this pass */
    ff_permutation order;     /* of seed 0 */
    ff_sampler **sampler;     /* [jobs] */
    ff_stats **sums;          /* [slots]: of the unit in it */
    size_t slots;
    ff_stats *total; /* the positions' below `done` */
    uint64_t done;
    uint64_t kept_ns;
    ff_progress progress;
} measure;

/* Whether an item is counted. */
static bool is_counted(const measure *state, uint64_t item) {
    const uint64_t sample = state->job->sample;
    return !sample || ff_permutation_inverse(&state->order, item, 0) < sample;
}

static uint64_t counted_item(const void *context, uint64_t position) {
    const measure *state = context;
    const uint64_t item = ff_source_item_at(state->job->split, position);
    return is_counted(state, item) ? item : UINT64_MAX;
}

/* Counts these positions. */
static uint64_t counted(const measure *state, uint64_t first, uint64_t end) {
    uint64_t items = 0;
    if (!state->job->sample) return end - first;
    for (uint64_t position = first; position < end; position++)
        items += is_counted(state, ff_source_item_at(state->job->split, position));
    return items;
}

/* ---- on workers ---------------------------------------------------------------------------- */

static ff_status measure_unit(measure *state, ff_sampler **sampler, ff_stats *sums, uint64_t first,
                              ff_error *error) {
    const ff_measure_job *job = state->job;
    if (!*sampler) FF_TRY(ff_sampler_create(sampler, job->plan, job->split, state->stream, error));
    ff_stats_reset(sums);
    uint64_t end = first + state->per_unit;
    if (end > state->range->end) end = state->range->end;
    FF_TRY(ff_sampler_begin(*sampler, first, end, error));
    for (uint64_t position = first; position < end; position++) {
        ff_sample sample;
        uint64_t item = ff_source_item_at(job->split, position);
        if (!is_counted(state, item)) continue;
        ff_status status = ff_sampler_make(*sampler, item, &sample, error);
        if (status != FF_OK && job->skip && ff_sample_skippable(&sample, status)) continue;
        FF_TRY(ff_sample_refuse(&sample, status, error));
        ff_sample_count(job->plan, &sample, sums);
    }
    return FF_OK;
}

static ff_status measure_make(void *context, int index, size_t slot, uint64_t number,
                              ff_error *error) {
    measure *state = context;
    uint64_t first = state->begun + number * state->per_unit;
    ff_status status = measure_unit(state, &state->sampler[index], state->sums[slot], first, error);
    if (status != FF_OK) ff_stream_stop(state->stream, first);
    return status;
}

/* ---- saved progress -------------------------------------------------------------------------- */

static ff_status keep(measure *state, ff_error *error) {
    const ff_measure_range *range = state->range;
    ff_kept kept = {.number = {state->done}, .text = *state->job->basis};
    ff_status status = ff_stats_encode(state->total, &kept.note, error);
    if (status == FF_OK)
        status = range->shared ? ff_kept_replace(&kept, range->directory, range->name, error)
                               : ff_kept_write(&kept, range->directory, range->name, error);
    ff_buffer_free(&kept.note);
    state->kept_ns = ff_now_ns();
    return status;
}

/* Sums of another basis measured something else. */
ff_status ff_measure_kept(const ff_measure_job *job, const ff_measure_range *range, ff_stats *sums,
                          uint64_t *done, ff_error *error) {
    const ff_buffer *basis = job->basis;
    char *path;
    ff_kept kept = {0};
    *done = range->first;
    FF_TRY(ff_path_join(&path, range->directory, range->name, error));
    ff_status status = FF_OK;
    if (access(path, F_OK) == 0) status = ff_kept_read(&kept, path, range->shared ? NULL : error);
    if (status == FF_OK && kept.text.length == basis->length &&
        !memcmp(kept.text.bytes, basis->bytes, basis->length)) {
        const uint64_t position = kept.number[0];
        if (position >= range->first && position <= range->end &&
            ff_stats_decode(sums, kept.note.bytes, kept.note.length))
            *done = position;
        else
            status = ff_fail(range->shared ? NULL : error, FF_BAD_DATA, "%s: is not of this source",
                             path);
    }
    ff_kept_free(&kept);
    free(path);
    return range->shared ? FF_OK : status;
}

/* ---- in order, on one thread at a time ----------------------------------------------------- */

static ff_status measure_take(void *context, size_t slot, uint64_t number, ff_error *error) {
    measure *state = context;
    ff_stats_merge(state->total, state->sums[slot]);
    const uint64_t first = state->done;
    state->done = state->begun + (number + 1) * state->per_unit;
    if (state->done > state->range->end) state->done = state->range->end;
    state->fresh += counted(state, first, state->done);
    bool due = ff_now_ns() - state->kept_ns >= KEEP_NS;
    return due || state->done == state->range->end ? keep(state, error) : FF_OK;
}

static ff_status measure_watch(void *context, ff_error *error) {
    measure *state = context;
    ff_progress_update(&state->progress, state->fresh, NULL);
    return ff_interrupt_check(error);
}

static ff_status run(measure *state, ff_error *error) {
    const ff_measure_job *job = state->job;
    uint64_t bytes = (uint64_t)job->plan->channels * job->plan->height * job->plan->width;
    state->per_unit = bytes < UNIT_BYTES ? UNIT_BYTES / bytes : 1;
    if (job->plan->source->encoded && state->per_unit > UNIT_IMAGES) state->per_unit = UNIT_IMAGES;
    state->slots = (size_t)job->jobs * SLOTS_A_JOB;
    state->kept_ns = ff_now_ns();
    FF_TRY(ff_measure_kept(job, state->range, state->total, &state->begun, error));
    state->done = state->begun;
    ff_shuffle_init(&state->order, ff_listing_count(job->split->listing), 0);
    const uint64_t end = state->range->end;
    if (state->begun == end) return FF_OK;
    ff_progress_begin(&state->progress, state->range->title, "items",
                      counted(state, state->begun, end), false);
    FF_TRY(
        ff_alloc(&state->sampler, (uint64_t)job->jobs, sizeof *state->sampler, "workers", error));
    FF_TRY(ff_alloc(&state->sums, state->slots, sizeof *state->sums, "sums", error));
    for (size_t i = 0; i < state->slots; i++)
        FF_TRY(ff_stats_create(&state->sums[i], job->plan->channels, error));
    const ff_stream_range range = {
        .first = state->begun, .end = end, .item = counted_item, .context = state};
    FF_TRY(ff_stream_create(&state->stream, job->plan->source, job->split, &range, error));
    ff_pipeline pipeline = {.end = (end - state->begun + state->per_unit - 1) / state->per_unit,
                            .jobs = job->jobs,
                            .slot_count = state->slots,
                            .context = state,
                            .make = measure_make,
                            .take = measure_take,
                            .watch = measure_watch};
    ff_status status = ff_pipeline_run(&pipeline, error);
    ff_progress_update(&state->progress, state->fresh, NULL);
    /* Save the progress of a stopped pass; the error stays the reason why it stopped. */
    if (status == FF_INTERRUPTED && state->done > state->begun) (void)!keep(state, NULL);
    return status;
}

ff_status ff_measure(const ff_measure_job *job, const ff_measure_range *range, ff_stats *sums,
                     uint64_t *fresh, ff_error *error) {
    measure state = {.job = job, .range = range, .total = sums};
    ff_status status = run(&state, error);
    ff_progress_end(&state.progress);
    *fresh += state.fresh;
    for (int i = 0; state.sampler && i < job->jobs; i++) ff_sampler_destroy(&state.sampler[i]);
    for (size_t i = 0; state.sums && i < state.slots; i++) ff_stats_destroy(&state.sums[i]);
    ff_stream_destroy(&state.stream);
    free(state.sampler);
    free(state.sums);
    return status;
}

ff_status ff_measure_finish(const ff_sample_plan *plan, const ff_source_split *split,
                            const ff_stats *total, float *mean, float *std, ff_error *error) {
    ff_status status = plan->values == FF_VALUES_U16
                           ? ff_stats_finish_range(total, plan->low, plan->high, mean, std, error)
                           : ff_stats_finish(total, mean, std, error);
    if (status == FF_OK) return FF_OK;
    return ff_fail_within(error, status, "--stats compute: %s%s%s", plan->source->path,
                          *split->name ? ", split " : "", split->name);
}
