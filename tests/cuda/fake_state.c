#include "tests/cuda/fake_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what there is ---- */

thing *fake_things;

const thing *fake_find(sort of, const void *at) {
    const thing *one = fake_things;
    while (one && (one->sort != of || one->at != at)) one = one->next;
    return one;
}

/* The allocation in which the range lies. */
static const thing *find_range(const void *at, size_t bytes) {
    const thing *one = fake_things;
    while (one && !((one->sort == DEVICE_MEMORY || one->sort == PINNED) && at >= one->at &&
                    (const char *)at + bytes <= (const char *)one->at + one->bytes))
        one = one->next;
    return one;
}

void *fake_hold(sort of, size_t bytes) {
    thing *one = malloc(sizeof *one);
    void *at = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!one || !at) abort();
    memset(at, 0, bytes);
    *one = (thing){fake_things, of, fake.current, at, bytes};
    fake_things = one;
    fake.held++;
    return at;
}

void fake_drop(const void *at) {
    thing **place = &fake_things;
    while (*place && (*place)->at != at) place = &(*place)->next;
    thing *one = *place;
    if (!one) return;
    *place = one->next;
    free(one->at);
    free(one);
    fake.held--;
}

/* ---- calls ---- */

cudaError_t fake_refuse(cudaError_t code) {
    return (cudaError_t)(fake.last_error = (int)code);
}

cudaError_t fake_misuse(const char *name, const char *what) {
    if (!*fake.misuse) snprintf(fake.misuse, sizeof fake.misuse, "%s: %s", name, what);
    return fake_refuse(cudaErrorInvalidResourceHandle);
}

cudaError_t fake_call(const char *name, bool of_device) {
    fake.calls++;
    if (of_device && fake.current != fake.device) fake.strays++;
    if (fake.calls != fake.fail_at) return cudaSuccess;
    snprintf(fake.failed, sizeof fake.failed, "%s", name);
    return fake_refuse((cudaError_t)fake.fail_with);
}

cudaError_t fake_check(const char *name, sort of, const void *at) {
    return fake_find(of, at) ? cudaSuccess
                             : fake_misuse(name, "a handle that is not, or no longer, there");
}

cudaError_t fake_check_range(const char *name, const void *at, size_t bytes) {
    return find_range(at, bytes) ? cudaSuccess
                                 : fake_misuse(name, "memory that is not, or no longer, allocated");
}

cudaError_t fake_check_safe(void) {
    const bool own = fake.captures && fake.mode != cudaStreamCaptureModeRelaxed;
    fake.capture_lost |= own;
    return own || (fake.global_capture && fake.mode == cudaStreamCaptureModeGlobal)
               ? fake_refuse(cudaErrorStreamCaptureUnsupported)
               : cudaSuccess;
}

cudaError_t fake_lose_capture(cudaError_t code) {
    fake.capture_lost = true;
    return fake_refuse(code);
}

/* ---- work ---- */

static void run_all(const queue *of);
static void run(const work *piece) {
    switch (piece->kind) {
    case COPY: memcpy(piece->to, piece->from, piece->bytes); break;
    case FILL: memset(piece->to, piece->value, piece->bytes); break;
    case CALL: piece->function(piece->context); break;
    case RECORD: piece->event->records++; break;
    case WAIT:
        if (fake_find(STREAM, piece->event->stream)) fake_drain(piece->event->stream);
        break;
    case LAUNCH: run_all(&piece->graph->work); break;
    }
}

static void run_all(const queue *of) {
    for (int i = 0; i < of->count; i++) run(&of->list[i]);
}

void fake_drain(cudaStream_t stream) {
    const queue all = stream->work;
    stream->work.count = 0; /* before: the stream may wait for itself */
    run_all(&all);
}

cudaError_t fake_enqueue(cudaStream_t stream, work piece) {
    queue *to = stream->capture ? &stream->capture->work : &stream->work;
    if (to->count == WORK_MOST) abort();
    to->list[to->count++] = piece;
    return cudaSuccess;
}

static bool uses(const queue *of, const void *memory, size_t bytes, cudaGraphExec_t graph) {
    const char *from = memory, *end = from + bytes;
    for (int i = 0; i < of->count; i++) {
        const work *w = &of->list[i];
        if (w->kind == LAUNCH && (w->graph == graph || uses(&w->graph->work, memory, bytes, graph)))
            return true;
        if (w->kind != COPY && w->kind != FILL) continue;
        if ((const char *)w->to < end && (const char *)w->to + w->bytes > from) return true;
        if (w->kind == COPY && (const char *)w->from < end &&
            (const char *)w->from + w->bytes > from)
            return true;
    }
    return false;
}

bool fake_in_use(const void *memory, size_t bytes, cudaGraphExec_t graph) {
    for (const thing *one = fake_things; one; one = one->next) {
        if (one->sort != STREAM) continue;
        const struct CUstream_st *stream = one->at;
        if (uses(&stream->work, memory, bytes, graph)) return true;
        if (stream->capture && uses(&stream->capture->work, memory, bytes, graph)) return true;
    }
    return false;
}
