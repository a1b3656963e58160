#include "tools/ffpack/pack/check.h"

#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "format/cli/say.h"
#include "tools/ffpack/split/item_notes.h"
#include "tools/ffpack/split/pipeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A worker's unit: few items, because a photograph takes up to a tenth of a second. */
enum { UNIT_ITEMS = 16, SLOTS_A_JOB = 4 };

typedef struct slot {
    ff_item_notes notes;
    ff_error refused; /* for the first item that packing would refuse; status FF_OK = none */
} slot;

typedef struct check {
    const ff_run *run;
    const ff_source_split *split;
    uint64_t count, done; /* items of the split */
    ff_stream *stream;
    ff_sampler **sampler; /* [jobs] */
    slot *slot;           /* [slots] */
    ff_error *refused;    /* the source's first */
    ff_progress progress;
} check;

/* ---- on workers ---- */

static ff_status check_item(check *state, ff_sampler *sampler, slot *to, uint64_t position,
                            ff_error *error) {
    const uint64_t number = ff_source_item_at(state->split, position);
    ff_item_note note = {.position = position, .item = number};
    ff_error failure = {0};
    ff_sample sample;
    const ff_status status = ff_sampler_make(sampler, number, &sample, &failure);
    note.broken = status != FF_OK && ff_sample_skippable(&sample, status);
    if (status == FF_USAGE && to->refused.status == FF_OK) to->refused = failure;
    if (note.broken || (status == FF_OK && sample.warning))
        return ff_item_notes_add(&to->notes, state->run->source, state->split, &sample.item, note,
                                 note.broken ? failure.message : sample.warning, error);
    if (status == FF_OK || status == FF_USAGE) return FF_OK;
    if (error) *error = failure;
    return status;
}

static ff_status check_unit(check *state, ff_sampler **sampler, slot *to, uint64_t first,
                            ff_error *error) {
    const uint64_t left = state->count - first,
                   end = first + (left < UNIT_ITEMS ? left : UNIT_ITEMS);
    if (!*sampler)
        FF_TRY(ff_sampler_create(sampler, &state->run->plan, state->split, state->stream, error));
    to->refused = (ff_error){0};
    FF_TRY(ff_sampler_begin(*sampler, first, end, error));
    for (uint64_t position = first; position < end; position++)
        FF_TRY(check_item(state, *sampler, to, position, error));
    return FF_OK;
}

static ff_status make_unit(void *context, int worker, size_t place, uint64_t number,
                           ff_error *error) {
    check *state = context;
    const uint64_t first = number * UNIT_ITEMS;
    const ff_status status =
        check_unit(state, &state->sampler[worker], &state->slot[place], first, error);
    if (status != FF_OK) ff_stream_stop(state->stream, first);
    return status;
}

/* ---- in order, on one thread at a time ---- */

static void tell(const check *state, const ff_item_note *note) {
    const ff_notices *notices = state->run->options;
    if (!note->broken)
        ff_notice(notices, "%s: %s", note->name, note->message);
    else if (notices->broken)
        notices->broken(notices->context, state->split->name, note->name, note->message);
    state->run->report->broken += note->broken;
}

static ff_status take_unit(void *context, size_t place, uint64_t number, ff_error *error) {
    (void)error;
    check *state = context;
    slot *from = &state->slot[place];
    for (size_t i = 0; i < from->notes.count; i++) tell(state, &from->notes.note[i]);
    ff_item_notes_clear(&from->notes);
    if (state->refused->status == FF_OK) *state->refused = from->refused;
    const uint64_t end = (number + 1) * UNIT_ITEMS;
    state->done = end < state->count ? end : state->count;
    return FF_OK;
}

static ff_status watch(void *context, ff_error *error) {
    check *state = context;
    ff_progress_update(&state->progress, state->done, NULL);
    return ff_interrupt_check(error);
}

static ff_status check_split(check *state, ff_error *error) {
    const uint64_t jobs = (uint64_t)state->run->settings->jobs;
    const size_t slots = (size_t)jobs * SLOTS_A_JOB;
    const char *name = state->split->name;
    char title[300];
    ff_status status;
    snprintf(title, sizeof title, "checking%s%s", *name ? " " : "", name);
    state->count = ff_listing_count(state->split->listing);
    state->done = 0;
    FF_TRY_DONE(ff_alloc(&state->sampler, jobs, sizeof *state->sampler, "workers", error));
    FF_TRY_DONE(ff_alloc(&state->slot, slots, sizeof *state->slot, "notes", error));
    FF_TRY_DONE(ff_stream_create(&state->stream, state->run->source, state->split,
                                 &(ff_stream_range){.end = state->count}, error));
    ff_progress_begin(&state->progress, title, "items", state->count, false);
    const ff_pipeline pipeline = {.end = (state->count + UNIT_ITEMS - 1) / UNIT_ITEMS,
                                  .jobs = (int)jobs,
                                  .slot_count = slots,
                                  .context = state,
                                  .make = make_unit,
                                  .take = take_unit,
                                  .watch = watch};
    FF_TRY_DONE(ff_pipeline_run(&pipeline, error));
    status = watch(state, error);
done:
    ff_progress_end(&state->progress);
    for (uint64_t i = 0; state->sampler && i < jobs; i++) ff_sampler_destroy(&state->sampler[i]);
    for (size_t i = 0; state->slot && i < slots; i++) ff_item_notes_free(&state->slot[i].notes);
    ff_stream_destroy(&state->stream);
    free(state->sampler);
    free(state->slot);
    state->sampler = NULL;
    state->slot = NULL;
    state->run->report->checked += state->done;
    return status;
}

ff_status ff_check_items(const ff_run *run, ff_error *error) {
    ff_report *report = run->report;
    const char *const one = run->source->encoded ? "image" : "item";
    const char *const many = run->source->encoded ? "images" : "items";
    ff_error refused = {0};
    report->decoded = true;
    check state = {.run = run, .refused = &refused};
    for (size_t i = 0; i < run->source->split_count; i++) {
        state.split = &run->source->split[i];
        FF_TRY(check_split(&state, error));
    }
    if (report->broken)
        return ff_fail(error, FF_BAD_DATA, "%s: %" PRIu64 " of %s %s broken", run->source->path,
                       report->broken, ff_say_count(report->checked, one, many).text,
                       report->broken == 1 ? "is" : "are");
    if (refused.status != FF_OK && error) *error = refused;
    return refused.status;
}
