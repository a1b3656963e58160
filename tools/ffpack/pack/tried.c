#include "tools/ffpack/pack/tried.h"

#include "format/cli/interrupt.h"
#include "format/cli/say.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct tried {
    uint64_t items, all, bad;
} tried;

/* Which items are tried: evenly spaced ones, or the first ones of an archive. */
typedef struct spread {
    const ff_source_split *split;
    uint64_t count, wanted;
} spread;

static uint64_t spread_item(const void *context, uint64_t position) {
    const spread *over = context;
    return over->split->order ? over->split->order[position]
                              : position * over->count / over->wanted;
}

static ff_status try_split(const ff_run *run, const ff_source_split *split, tried *counts,
                           ff_error *error) {
    const uint64_t count = ff_listing_count(split->listing);
    const uint64_t wanted = count < FF_TRIED_ITEMS ? count : FF_TRIED_ITEMS;
    uint64_t bad_here = 0;
    ff_stream *stream = NULL;
    ff_sampler *sampler = NULL;
    ff_status status;
    const spread over = {.split = split, .count = count, .wanted = wanted};
    const ff_stream_range range = {.end = wanted, .item = spread_item, .context = &over};
    FF_TRY_DONE(ff_stream_create(&stream, run->source, split, &range, error));
    FF_TRY_DONE(ff_sampler_create(&sampler, &run->plan, split, stream, error));
    for (uint64_t i = 0; i < wanted; i++) {
        ff_sample sample;
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(ff_sampler_begin(sampler, i, i + 1, error));
        status = ff_sampler_make(sampler, spread_item(&over, i), &sample, error);
        const bool bad = status != FF_OK && ff_sample_skippable(&sample, status);
        if (!bad || !run->settings->skip) FF_TRY_DONE(ff_sample_refuse(&sample, status, error));
        bad_here += bad;
    }
    status = FF_OK;
    if (run->settings->skip)
        FF_TRY_DONE(
            ff_max_skip_check(&run->settings->max_skip, split->name, bad_here, count, error));
    counts->bad += bad_here;
    counts->items += wanted;
    counts->all += count;
done:
    ff_sampler_destroy(&sampler);
    ff_stream_destroy(&stream);
    return status;
}

static ff_status note(const tried *counts, ff_names *notes, ff_error *error) {
    char bad[64] = "";
    if (counts->items == counts->all && !counts->bad) return FF_OK;
    if (counts->bad) snprintf(bad, sizeof bad, "; %" PRIu64 " would be left out", counts->bad);
    return ff_names_add_text(notes, error, "tried %s of %s%s",
                             ff_say_count(counts->items, "image", "images").text,
                             ff_say_count(counts->all, "image", "images").text, bad);
}

ff_status ff_tried_items(const ff_run *run, ff_error *error) {
    tried counts = {0};
    if (!run->source->encoded) return FF_OK;
    for (size_t i = 0; i < run->source->split_count; i++)
        FF_TRY(try_split(run, &run->source->split[i], &counts, error));
    return note(&counts, &run->report->notes, error);
}
