/* Room loader/device, floor 5: one table of functions for the memory, copies, streams and events of
 * a device.
 *
 * host.c makes the table for ordinary memory, with streams that run in the caller or in one thread
 * each. absent.c makes a device that only counts, for planning a run. CUDA's own table is in
 * loader/cuda. Loader and trainer see only this header, so tests on a simulated GPU run the code
 * that ships for a GPU.
 *
 * May include format.
 *
 * The device table: memory, pinned host memory, copies, streams and events of one device.
 *
 * Two implementations: the host (host.h), whose device memory is ordinary memory and whose streams
 * run in the caller or in one thread each; and CUDA, in a separate module. The loader and the
 * trainer use only this table.
 *
 * A stream runs its work in the order of the calls; work in different streams is unordered unless
 * an event orders it. An event covers the work enqueued in its stream before the event's last
 * record; an event that was never recorded counts as done. These are CUDA's rules.
 *
 * Recordings: between capture_begin and capture_end, work enqueued in a stream is recorded and not
 * run. recording_launch runs the recorded work, any number of times, and each launch costs the host
 * one call. A stream that waits for an event recorded in the capture joins the capture (fork);
 * before the end, the first stream must wait for the last work of every joined stream (join). An
 * event recorded in a capture with event_record orders streams within the capture and has no
 * meaning outside; event_record_external is for streams outside. These are CUDA graphs' rules
 * (CUDA's programming guide, "Stream Capture"). The host makes no recordings.
 *
 * Ownership: the creator of a stream, event or memory releases it, before the device is destroyed
 * and after the work that uses it is done. Errors: FF_NO_MEMORY, or FF_FAILED naming the call that
 * failed. Thread rule: all entries may be called from any thread; one thread at a time uses a
 * stream or an event, except that any number of threads may call event_synchronize, event_done and
 * stream_wait for an event while another thread records the event. */
#ifndef FF_LOADER_DEVICE_DEVICE_H
#define FF_LOADER_DEVICE_DEVICE_H

#include "format/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ff_device ff_device;
typedef struct ff_stream ff_stream; /* the implementation's own types */
typedef struct ff_event ff_event;
typedef struct ff_recording ff_recording;

/* Every entry is required unless marked optional (NULL if the device does not have it). */
typedef struct ff_device_table {
    const char *name; /* "host", "cuda" */

    /* Device memory is ordinary memory: the host may read and write it, so no copy is needed. */
    bool unified;

    void (*destroy)(ff_device *device);

    /* Optional: the name of an error code that a launcher returns; NULL = unknown code. */
    const char *(*error_name)(int code);
    /* With error_name: what to do, as "; do this", or "". */
    const char *(*error_advice)(int code);

    /* Free and total bytes. */
    ff_status (*memory)(ff_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                        ff_error *error);

    /* Device memory, aligned to at least 256 bytes, not zeroed. `what` names it in an error. */
    ff_status (*allocate)(ff_device *device, void **memory, uint64_t bytes, const char *what,
                          ff_error *error);
    void (*release)(ff_device *device, void *memory); /* NULL is accepted */

    /* Host memory that asynchronous copies may use, aligned and released in the same way. */
    ff_status (*allocate_pinned)(ff_device *device, void **memory, uint64_t bytes, const char *what,
                                 ff_error *error);
    void (*release_pinned)(ff_device *device, void *memory);

    ff_status (*stream_create)(ff_device *device, ff_stream **stream, ff_error *error);
    /* Waits for the stream's work first. NULL is accepted. */
    void (*stream_destroy)(ff_device *device, ff_stream *stream);
    /* Waits until all work enqueued so far is done; reports a failure in it. */
    ff_status (*stream_synchronize)(ff_device *device, ff_stream *stream, ff_error *error);

    /* Optional: the stream in the type that kernel launchers and the device's libraries take, a
     * cudaStream_t. */
    void *(*native_stream)(ff_device *device, ff_stream *stream);
    /* Makes the device the calling thread's current device: once per thread, before the thread
     * calls launchers or libraries. The entries of this table do not need it. */
    ff_status (*make_current)(ff_device *device, ff_error *error);
    /* The number of the calling thread's current device, and making that device current again: for
     * calls on behalf of a thread whose current device is its own affair. */
    int (*current)(ff_device *device);
    void (*restore)(ff_device *device, int ordinal);

    /* Only events created with `timed` have an `elapsed` time; the others cost less. */
    ff_status (*event_create)(ff_device *device, ff_event **event, bool timed, ff_error *error);
    void (*event_destroy)(ff_device *device, ff_event *event); /* NULL is accepted */
    ff_status (*event_record)(ff_device *device, ff_event *event, ff_stream *stream,
                              ff_error *error);
    /* Outside a capture, the same as event_record. In a capture, every launch of the recording
     * records the event again, so that other streams can wait for a point inside the recording. A
     * launch counts as recording the event when recording_launch is called. */
    ff_status (*event_record_external)(ff_device *device, ff_event *event, ff_stream *stream,
                                       ff_error *error);
    /* The calling thread waits. */
    ff_status (*event_synchronize)(ff_device *device, ff_event *event, ff_error *error);
    /* Whether the event is done, without waiting. */
    bool (*event_done)(ff_device *device, ff_event *event);
    /* Work enqueued in the stream from now on waits; the calling thread does not. */
    ff_status (*stream_wait)(ff_device *device, ff_stream *stream, ff_event *event,
                             ff_error *error);

    /* Copies `bytes` in the stream, between any of pinned and device memory (the direction follows
     * from the pointers). Neither side may be changed or freed until the copy is done. */
    ff_status (*copy)(ff_device *device, ff_stream *stream, void *to, const void *from,
                      uint64_t bytes, ff_error *error);
    /* Sets device memory to one byte's value. */
    ff_status (*fill)(ff_device *device, ff_stream *stream, void *to, uint8_t value, uint64_t bytes,
                      ff_error *error);

    /* Runs function(context) on the host in the stream. The function must not call the device. */
    ff_status (*call)(ff_device *device, ff_stream *stream, void (*function)(void *context),
                      void *context, ff_error *error);

    /* Nanoseconds from `from` to `to`, both timed, recorded and done (FF_FAILED otherwise); 0 if
     * `to` came first. CUDA's resolution is half a microsecond. */
    ff_status (*elapsed)(ff_device *device, ff_event *from, ff_event *to, uint64_t *ns,
                         ff_error *error);

    /* The entries from here on are optional together: a device has recordings, or not.
     *
     * Begins a capture in a stream that is not in a capture. Until the capture ends, work may be
     * enqueued in its streams, except recordings. Its streams must not be synchronized and may wait
     * only for events recorded in this capture; buffers used in the capture must stay allocated as
     * long as the recording exists. Other threads and streams are not affected (CUDA's thread-local
     * mode). */
    ff_status (*capture_begin)(ff_device *device, ff_stream *stream, ff_error *error);
    /* Ends the capture that began in `stream`, in any case; called by the thread that began it. On
     * failure *recording = NULL. Streams and events used in the capture must outlive this call. */
    ff_status (*capture_end)(ff_device *device, ff_stream *stream, ff_recording **recording,
                             ff_error *error);
    /* Whether the stream is in a capture. */
    bool (*capturing)(ff_device *device, ff_stream *stream);
    /* Enqueues the recorded work in the stream. Launches of one recording never overlap. */
    ff_status (*recording_launch)(ff_device *device, ff_recording *recording, ff_stream *stream,
                                  ff_error *error);
    /* The recording's launches must be done. NULL is accepted. */
    void (*recording_destroy)(ff_device *device, ff_recording *recording);
} ff_device_table;

/* The struct of every implementation begins with this one. */
struct ff_device {
    const ff_device_table *table;
    int ordinal; /* 0 for the host */
};

/* NULL is accepted; *device = NULL. */
static inline void ff_device_destroy(ff_device **device) {
    if (*device) (*device)->table->destroy(*device);
    *device = NULL;
}

#endif
