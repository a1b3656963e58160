/* The device table: memory, pinned host memory, copies, streams and events of one device.
 *
 * Two implementations: the host (host.h), whose device memory is ordinary memory and whose
 * streams run in the caller or, each, in a thread of its own; and CUDA, a module of its own. The
 * loader and the trainer are written over this table alone.
 *
 * Streams run their work in the order of the calls; work in different streams is unordered unless
 * an event orders it. An event stands for the work that its stream had been given when it was last
 * recorded; one that was never recorded counts as done. These are CUDA's rules.
 *
 * Recordings: between capture_begin and capture_end what a stream is given is kept instead of run,
 * and recording_launch runs it, any number of times, for the host cost of one call. A stream that
 * waits for an event recorded in the capture joins it (fork); the first stream must have waited for
 * the last work of every joined one before the end (join). An event that event_record recorded in a
 * capture orders streams within it and stands for nothing outside; event_record_external is for
 * those outside. These are CUDA graphs' rules (CUDA's programming guide, "Stream Capture").
 *
 * Ownership: whoever creates a stream or event or allocates memory releases it, before the device
 * is destroyed, and after the work that uses it is done. Errors: FF_NO_MEMORY, or FF_FAILED naming
 * the call that failed. Thread rule: all entries may be called from any thread; one stream or event
 * is used by one thread at a time, but event_synchronize, event_done and stream_wait, which any
 * number of threads may call for one event beside a thread that records it. */
#ifndef FF_LOADER_DEVICE_DEVICE_H
#define FF_LOADER_DEVICE_DEVICE_H

#include "format/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ff_device ff_device;
typedef struct ff_stream ff_stream; /* the implementation's own */
typedef struct ff_event ff_event;
typedef struct ff_recording ff_recording;

/* Every entry is required unless marked optional (then NULL where the device has none). */
typedef struct ff_device_table {
    const char *name; /* "host", "cuda" */

    /* Device memory is ordinary memory: the host may read and write it, and a copy into it is not
     * needed. False for the asynchronous host device under test, which keeps the two apart. */
    bool unified;

    void (*destroy)(ff_device *device);

    /* Optional: the name of a code that a kernel's launcher returns; NULL = it has none. */
    const char *(*error_name)(int code);

    /* Bytes free and in total. */
    ff_status (*memory)(ff_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                        ff_error *error);

    /* Device memory, aligned to at least 256 bytes, not zeroed. `what` names it in an error. */
    ff_status (*allocate)(ff_device *device, void **memory, uint64_t bytes, const char *what,
                          ff_error *error);
    void (*release)(ff_device *device, void *memory); /* NULL is accepted */

    /* Host memory that asynchronous copies may use, aligned and released likewise. */
    ff_status (*allocate_pinned)(ff_device *device, void **memory, uint64_t bytes, const char *what,
                                 ff_error *error);
    void (*release_pinned)(ff_device *device, void *memory);

    ff_status (*stream_create)(ff_device *device, ff_stream **stream, ff_error *error);
    /* Waits for its work first. NULL is accepted. */
    void (*stream_destroy)(ff_device *device, ff_stream *stream);
    /* Waits until all work given so far is done; reports what failed in it. */
    ff_status (*stream_synchronize)(ff_device *device, ff_stream *stream, ff_error *error);

    /* What the launchers of kernels and the libraries of the device take as their stream: a
     * cudaStream_t; on the host the stream itself, which ff_device_host_enqueue takes. */
    void *(*native_stream)(ff_device *device, ff_stream *stream);
    /* Makes the device the calling thread's current one: once a thread, before it calls launchers
     * or libraries. The entries of this table need no such call. */
    ff_status (*make_current)(ff_device *device, ff_error *error);

    /* Only events created with `timed` have an `elapsed`; the others cost less. */
    ff_status (*event_create)(ff_device *device, ff_event **event, bool timed, ff_error *error);
    void (*event_destroy)(ff_device *device, ff_event *event); /* NULL is accepted */
    ff_status (*event_record)(ff_device *device, ff_event *event, ff_stream *stream,
                              ff_error *error);
    /* The same outside of a capture; in one, every launch of the recording records the event anew,
     * so that other streams may wait for a place inside of it. A launch counts as recording the
     * event when recording_launch is called. */
    ff_status (*event_record_external)(ff_device *device, ff_event *event, ff_stream *stream,
                                       ff_error *error);
    /* The calling thread waits. */
    ff_status (*event_synchronize)(ff_device *device, ff_event *event, ff_error *error);
    /* Whether it is done, without waiting. */
    bool (*event_done)(ff_device *device, ff_event *event);
    /* What the stream is given from now on waits; the calling thread does not. */
    ff_status (*stream_wait)(ff_device *device, ff_stream *stream, ff_event *event,
                             ff_error *error);

    /* Copies `bytes` in the stream, between any of pinned and device memory (the pointers tell the
     * direction). Both stay untouched by others until it is done. */
    ff_status (*copy)(ff_device *device, ff_stream *stream, void *to, const void *from,
                      uint64_t bytes, ff_error *error);
    /* Sets device memory to one byte's value. */
    ff_status (*fill)(ff_device *device, ff_stream *stream, void *to, uint8_t value, uint64_t bytes,
                      ff_error *error);

    /* Runs function(context) on the host in the stream. It calls nothing of the device. */
    ff_status (*call)(ff_device *device, ff_stream *stream, void (*function)(void *context),
                      void *context, ff_error *error);

    /* Nanoseconds from `from` to `to`, both timed, recorded and done (FF_FAILED otherwise); 0 where
     * `to` came first. CUDA's clock counts half microseconds. */
    ff_status (*elapsed)(ff_device *device, ff_event *from, ff_event *to, uint64_t *ns,
                         ff_error *error);

    /* Begins a capture in a stream that is in none. Until its end the streams in it may be given
     * work, recordings excepted, and are not synchronized; they wait only for events recorded in
     * this capture; buffers named in the calls stay where they are as long as the recording lives.
     * Other threads and streams go on as ever (CUDA's thread-local mode). */
    ff_status (*capture_begin)(ff_device *device, ff_stream *stream, ff_error *error);
    /* Ends the capture that began in `stream`, by the thread that began it, whatever the result; on
     * failure *recording = NULL. Streams and events used in it outlive this call. */
    ff_status (*capture_end)(ff_device *device, ff_stream *stream, ff_recording **recording,
                             ff_error *error);
    /* Gives the stream the recorded work. Launches of one recording never overlap. */
    ff_status (*recording_launch)(ff_device *device, ff_recording *recording, ff_stream *stream,
                                  ff_error *error);
    /* After its launches are done. NULL is accepted. */
    void (*recording_destroy)(ff_device *device, ff_recording *recording);
} ff_device_table;

/* Implementations begin with this. */
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
