#include "train/segments.h"

#include "format/base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct ff_segment {
    ff_segment *next;
    const ff_segment_kind *kind;
    ff_plan *plan;  /* NULL: for all plans */
    ff_batch batch; /* as captured */
    bool warm;      /* it has run once */
    bool recorded;
    ff_recording *plain, *timed;
};

static ff_segment *find(const ff_segments *segments, int kind, const ff_plan *plan) {
    const ff_segment_kind *wanted = &segments->kinds[kind];
    ff_segment *s = segments->list;
    while (s && (s->kind != wanted || (wanted->of_plan && s->plan != plan))) s = s->next;
    return s;
}

static ff_status find_or_add(ff_segments *segments, int kind, ff_plan *plan, ff_segment **segment,
                             ff_error *error) {
    ff_segment *s = find(segments, kind, plan);
    *segment = s;
    if (s) return FF_OK;
    FF_TRY(ff_alloc(&s, 1, sizeof *s, "a training step", error));
    s->kind = &segments->kinds[kind];
    s->plan = s->kind->of_plan ? plan : NULL;
    s->next = segments->list;
    segments->list = *segment = s;
    return FF_OK;
}

static const ff_device_table *table_of(const ff_segments *segments) {
    return segments->compute->device->table;
}

/* Captures the segment's calls. */
static ff_status capture(const ff_segments *segments, const ff_segment *s, bool timed,
                         ff_recording **recording, ff_error *error) {
    ff_compute *compute = segments->compute;
    const ff_device_table *table = table_of(segments);
    FF_TRY(table->capture_begin(compute->device, compute->stream, error));
    ff_status status = s->kind->give(segments->context, s->plan, &s->batch, timed, error);
    /* end the capture in any case; its own failure is the second one */
    ff_status ended = table->capture_end(compute->device, compute->stream, recording,
                                         status == FF_OK ? error : NULL);
    return status == FF_OK ? ended : status;
}

/* Capture is optional: a failure is reported once, and all further steps run without graphs. Where
 * the capture was not the reason, those calls fail too. */
static void record(ff_segments *segments, ff_segment *s) {
    ff_error why = {0};
    ff_status status = capture(segments, s, false, &s->plain, &why);
    if (status == FF_OK && s->kind->timed) status = capture(segments, s, true, &s->timed, &why);
    s->recorded = status == FF_OK;
    if (s->recorded) return;
    snprintf(segments->note, sizeof segments->note,
             "steps run without CUDA graphs, which costs the host more time: %s", why.message);
    ff_compute_forgive(segments->compute);
    segments->record = false;
}

ff_status ff_segments_run(ff_segments *segments, int kind, ff_plan *plan, const ff_batch *batch,
                          bool timed, ff_error *error) {
    ff_compute *compute = segments->compute;
    ff_segment *s;
    FF_TRY(find_or_add(segments, kind, plan, &s, error));
    assert(!s->recorded || !s->kind->of_plan ||
           (s->batch.images == batch->images && s->batch.labels == batch->labels &&
            s->batch.weights == batch->weights && s->batch.mix == batch->mix));
    s->batch = *batch;
    if (segments->record && s->warm && !s->recorded) record(segments, s);
    if (segments->record && s->recorded)
        return table_of(segments)->recording_launch(compute->device, timed ? s->timed : s->plain,
                                                    compute->stream, error);
    s->warm = true;
    return s->kind->give(segments->context, plan, batch, timed, error);
}

bool ff_segments_timeable(const ff_segments *segments, int kind, const ff_plan *plan) {
    const ff_segment *s = find(segments, kind, plan);
    return !segments->record || (s && s->recorded);
}

void ff_segments_destroy(ff_segments *segments) {
    ff_device *device = segments->compute->device;
    while (segments->list) {
        ff_segment *s = segments->list;
        segments->list = s->next;
        device->table->recording_destroy(device, s->plain);
        device->table->recording_destroy(device, s->timed);
        free(s);
    }
}
