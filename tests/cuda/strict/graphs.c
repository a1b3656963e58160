/* Work, and captures of it. */
#include "tests/cuda/sim/device.h"
#include "tests/cuda/strict/state.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct CUgraph_st {
    capture *of;
};
/* Each node has a lane: that of a node before it which has no other next one, else a new one. */
struct CUgraphExec_st {
    capture *of;
    int *lane_of;
    instant *when; /* of each node */
    int lanes[LANES], lane_count;
    instant last; /* the end of the last launch */
};

/* ---- running ---- */

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void record(cudaEvent_t event, const instant *when) {
    event->recorded = true;
    event->when = *when;
    event->ns = clock_ns();
}

static void run_function(const work *piece, const actor *by) {
    running = by;
    if (!by->kernel) unlock_all(); /* what it waits for needs the lock */
    piece->function(piece->context);
    if (!by->kernel) lock_all();
    running = NULL;
}

void perform(const work *piece, int lane, instant *when) {
    const actor by = {.operation = new_operation(lane, when, piece->where),
                      .when = when,
                      .where = piece->where,
                      .device = piece->device,
                      .kernel = piece->kind == KERNEL && !piece->waits,
                      .host = piece->kind == FUNCTION};
    counts.functions += by.host;
    switch (piece->kind) {
    case KERNEL:
        if (by.kernel) begin_kernel();
        run_function(piece, &by);
        if (by.kernel) end_kernel(&by);
        break;
    case FUNCTION: run_function(piece, &by); break;
    case COPY: copy_range(&by, piece->to, piece->from, piece->bytes); break;
    case FILL: fill_range(&by, piece->to, piece->value, piece->bytes); break;
    case RECORD: record(piece->event, when); break;
    }
    if (piece->kind == COPY || piece->kind == FILL) {
        counts.copies++;
        counts.bytes += piece->bytes;
    }
}

/* ---- tips ---- */

static bool tips_have(const tips *of, int node) {
    int i = 0;
    while (i < of->count && of->list[i] != node) i++;
    return i < of->count;
}

void tips_add(tips *to, const tips *from) {
    for (int i = 0; i < from->count; i++) {
        if (tips_have(to, from->list[i])) continue;
        to->list = realloc(to->list, sizeof *to->list * (size_t)(to->count + 1));
        if (!to->list) abort();
        to->list[to->count++] = from->list[i];
    }
}

void tips_set(tips *to, const tips *from) {
    to->count = 0;
    if (from) tips_add(to, from);
}

/* ---- captures ---- */

void capture_release(capture *of) {
    if (--of->users) return;
    for (int i = 0; i < of->count; i++) {
        if (of->nodes[i].release) of->nodes[i].release(of->nodes[i].context);
        free(of->nodes[i].after);
    }
    free(of->nodes);
    free(of);
}

static cudaError_t keep(cudaStream_t stream, work piece) {
    capture *in = stream->capture;
    if (in->count == in->room) {
        in->room = in->room ? 2 * in->room : 64;
        in->nodes = realloc(in->nodes, sizeof *in->nodes * (size_t)in->room);
        if (!in->nodes) abort();
    }
    tips after = {0};
    tips_add(&after, &stream->tips);
    piece.after = after.list;
    piece.after_count = after.count;
    int number = in->count++;
    in->nodes[number] = piece;
    tips_set(&stream->tips, &(tips){&number, 1});
    return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, work piece) {
    piece.device = stream->device;
    if (stream->capture) return keep(stream, piece);
    join(&stream->when, &host_instant);
    counts.kernels += piece.kind == KERNEL;
    perform(&piece, stream->lane, &stream->when);
    if (piece.release) piece.release(piece.context);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    CALL("cudaStreamBeginCapture");
    if (!check_handle(this_call.name, STREAM, stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture)
        return refuse(this_call.name, cudaErrorIllegalState, "the stream is in a capture");
    stream->capture = calloc(1, sizeof *stream->capture);
    if (!stream->capture) abort();
    *stream->capture = (capture){.users = 1, .origin = stream, .mode = mode};
    own_captures += mode != cudaStreamCaptureModeRelaxed;
    global_captures += mode == cudaStreamCaptureModeGlobal;
    tips_set(&stream->tips, NULL);
    return cudaSuccess;
}

/* In place of the simulated device's. */
int ff_device_sim_nodes(const ff_stream *stream) {
    const capture *of = ((const struct CUstream_st *)(const void *)stream)->capture;
    int nodes = 0;
    for (int i = 0; of && i < of->count; i++)
        nodes += of->nodes[i].kind != FUNCTION && of->nodes[i].kind != RECORD;
    return nodes;
}

/* Whether the stream's last nodes come after every other node. */
static bool is_joined(const capture *of, const tips *last) {
    bool *reached = calloc((size_t)of->count + 1, sizeof *reached), all = true;
    if (!reached) abort();
    for (int i = 0; i < last->count; i++) reached[last->list[i]] = true;
    for (int i = of->count - 1; i >= 0; i--) {
        all = all && reached[i];
        for (int k = 0; reached[i] && k < of->nodes[i].after_count; k++)
            reached[of->nodes[i].after[k]] = true;
    }
    free(reached);
    return all;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    CALL("cudaStreamEndCapture");
    *graph = NULL;
    if (!check_handle(this_call.name, STREAM, stream)) return cudaErrorInvalidResourceHandle;
    capture *of = stream->capture;
    if (!of || of->origin != stream)
        return refuse(this_call.name, cudaErrorIllegalState, "no capture began in the stream");
    const bool joined = is_joined(of, &stream->tips);
    own_captures -= of->mode != cudaStreamCaptureModeRelaxed;
    global_captures -= of->mode == cudaStreamCaptureModeGlobal;
    stream->capture = NULL;
    leave_capture(of);
    if (!joined || of->lost) {
        capture_release(of);
        return refuse(this_call.name, cudaErrorStreamCaptureUnjoined,
                      joined ? "a call in the capture was refused"
                             : "the first stream does not wait for all work of the others");
    }
    *graph = hold(GRAPH, sizeof **graph);
    (*graph)->of = of;
    return cudaSuccess;
}

/* ---- graphs ---- */

static void share_lanes(cudaGraphExec_t made) {
    int last[LANES];
    for (int i = 0; i < made->of->count; i++) {
        const work *node = &made->of->nodes[i];
        int lane = 0;
        for (; lane < made->lane_count; lane++)
            if (tips_have(&(tips){node->after, node->after_count}, last[lane])) break;
        if (lane == made->lane_count) made->lanes[made->lane_count++] = take_lane();
        last[lane] = i;
        made->lane_of[i] = made->lanes[lane];
    }
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph,
                                 unsigned long long flags) {
    CALL("cudaGraphInstantiate");
    (void)flags;
    *made = NULL;
    if (!check_handle(this_call.name, GRAPH, graph)) return cudaErrorInvalidResourceHandle;
    *made = hold(EXEC, sizeof **made);
    (*made)->of = graph->of;
    graph->of->users++;
    (*made)->lane_of = calloc((size_t)graph->of->count + 1, sizeof *(*made)->lane_of);
    (*made)->when = calloc((size_t)graph->of->count + 1, sizeof *(*made)->when);
    if (!(*made)->lane_of || !(*made)->when) abort();
    share_lanes(*made);
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t made, cudaStream_t stream) {
    CALL("cudaGraphUpload");
    return check_handle(this_call.name, EXEC, made) && check_handle(this_call.name, STREAM, stream)
               ? cudaSuccess
               : cudaErrorInvalidResourceHandle;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    CALL("cudaGraphDestroy");
    if (!check_handle(this_call.name, GRAPH, graph)) return cudaErrorInvalidResourceHandle;
    capture_release(graph->of);
    drop(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t stream) {
    CALL("cudaGraphLaunch");
    if (!check_handle(this_call.name, EXEC, made) || !check_handle(this_call.name, STREAM, stream))
        return cudaErrorInvalidResourceHandle;
    if (stream->capture)
        return refuse(this_call.name, cudaErrorIllegalState, "the stream is in a capture");
    /* Launches of one graph run one after another, in whatever streams. */
    join(&stream->when, &host_instant);
    join(&stream->when, &made->last);
    instant end = stream->when;
    counts.graphs++;
    for (int i = 0; i < made->of->count; i++) {
        const work *node = &made->of->nodes[i];
        made->when[i] = stream->when;
        for (int k = 0; k < node->after_count; k++)
            join(&made->when[i], &made->when[node->after[k]]);
        perform(node, made->lane_of[i], &made->when[i]);
        join(&end, &made->when[i]);
        counts.nodes++;
    }
    stream->when = made->last = end;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t made) {
    CALL("cudaGraphExecDestroy");
    if (!check_handle(this_call.name, EXEC, made)) return cudaErrorInvalidResourceHandle;
    if (!is_before(&made->last, &host_instant))
        fail(find_place(this_call.name, NULL), NULL, NULL,
             "a graph is destroyed, and the host has not waited for its last launch");
    for (int i = 0; i < made->lane_count; i++) give_lane(made->lanes[i]);
    capture_release(made->of);
    free(made->lane_of);
    free(made->when);
    drop(made);
    return cudaSuccess;
}
