#include "train/step/segments.h"

#include "format/base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* A graph, and the call after it; the last piece has no call. */
typedef struct piece {
    ff_recording *recording;
    ff_collective then;
} piece;

typedef struct ff_pieces {
    piece *list;
    size_t count, capacity;
} ff_pieces;

struct ff_segment {
    ff_segment *next;
    const ff_segment_kind *kind;
    ff_plan *plan;  /* NULL: for all plans */
    ff_batch batch; /* as captured */
    bool warm;      /* it has run once */
    bool recorded;
    ff_pieces plain, timed;
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

/* Ends the capture, also after a failure, and appends it as the next piece. */
static ff_status end_piece(ff_segments *segments, piece next, ff_error *error) {
    ff_compute *compute = segments->compute;
    ff_pieces *pieces = segments->capturing;
    const ff_status status = ff_reserve(&pieces->list, &pieces->capacity, pieces->count + 1,
                                        sizeof *pieces->list, "a training step", error);
    const ff_status ended = table_of(segments)->capture_end(
        compute->device, compute->stream, &next.recording, status == FF_OK ? error : NULL);
    if (status == FF_OK)
        pieces->list[pieces->count++] = next;
    else
        table_of(segments)->recording_destroy(compute->device, next.recording);
    return status == FF_OK ? ended : status;
}

static ff_status capture(ff_segments *segments, const ff_segment *s, bool timed, ff_pieces *pieces,
                         ff_error *error) {
    ff_compute *compute = segments->compute;
    FF_TRY(table_of(segments)->capture_begin(compute->device, compute->stream, error));
    segments->capturing = pieces;
    ff_status status = s->kind->enqueue(segments->context, s->plan, &s->batch, timed, error);
    /* if the calls failed, the failure of ending the capture is not reported */
    ff_status ended = end_piece(segments, (piece){0}, status == FF_OK ? error : NULL);
    segments->capturing = NULL;
    return status == FF_OK ? ended : status;
}

void ff_segments_collective(ff_segments *segments, ff_collective call) {
    ff_compute *compute = segments->compute;
    if (!segments->capturing || call.comm->in_graphs) {
        (void)!call.make(segments->context, &call, ff_compute_error(compute));
        return;
    }
    (void)!end_piece(segments, (piece){.then = call}, ff_compute_error(compute));
    (void)!table_of(segments)->capture_begin(compute->device, compute->stream,
                                             ff_compute_error(compute));
}

static ff_status launch(const ff_segments *segments, const ff_pieces *pieces, ff_error *error) {
    ff_compute *compute = segments->compute;
    for (size_t i = 0; i < pieces->count; i++) {
        const piece *p = &pieces->list[i];
        FF_TRY(table_of(segments)->recording_launch(compute->device, p->recording, compute->stream,
                                                    error));
        if (p->then.make) FF_TRY(p->then.make(segments->context, &p->then, error));
    }
    return FF_OK;
}

/* Capture is optional: a failure is reported once, and all further steps run without graphs. If the
 * capture was not the reason for the failure, the calls of these steps fail too. */
static ff_status record(ff_segments *segments, ff_segment *s, ff_error *error) {
    ff_error why = {.message = "another rank could not capture them"};
    ff_status status = capture(segments, s, false, &s->plain, &why);
    if (status == FF_OK && s->kind->timed) status = capture(segments, s, true, &s->timed, &why);
    s->recorded = status == FF_OK;
    if (!s->recorded) ff_compute_forgive(segments->compute);
    if (segments->agree) FF_TRY(segments->agree(segments->context, &s->recorded, error));
    if (s->recorded) return FF_OK;
    snprintf(segments->note, sizeof segments->note,
             "steps run without CUDA graphs, which costs the host more time: %s", why.message);
    segments->record = false;
    return FF_OK;
}

static bool has_graphs(const ff_segments *segments) {
    return segments->record && !segments->called;
}

ff_status ff_segments_run(ff_segments *segments, int kind, ff_plan *plan, const ff_batch *batch,
                          bool timed, ff_error *error) {
    ff_segment *s;
    FF_TRY(find_or_add(segments, kind, plan, &s, error));
    assert(!s->recorded || !s->kind->of_plan ||
           (s->batch.images == batch->images && s->batch.labels == batch->labels &&
            s->batch.weights == batch->weights && s->batch.mix == batch->mix));
    s->batch = *batch;
    if (has_graphs(segments) && s->warm && !s->recorded) FF_TRY(record(segments, s, error));
    if (has_graphs(segments) && s->recorded)
        return launch(segments, timed ? &s->timed : &s->plain, error);
    s->warm = true;
    return s->kind->enqueue(segments->context, plan, batch, timed, error);
}

bool ff_segments_timeable(const ff_segments *segments, int kind, const ff_plan *plan) {
    const ff_segment *s = find(segments, kind, plan);
    return !has_graphs(segments) || (s && s->recorded);
}

static void drop(const ff_segments *segments, ff_pieces *pieces) {
    for (size_t i = 0; i < pieces->count; i++)
        table_of(segments)->recording_destroy(segments->compute->device, pieces->list[i].recording);
    free(pieces->list);
}

void ff_segments_destroy(ff_segments *segments) {
    while (segments->list) {
        ff_segment *s = segments->list;
        segments->list = s->next;
        drop(segments, &s->plain);
        drop(segments, &s->timed);
        free(s);
    }
}
