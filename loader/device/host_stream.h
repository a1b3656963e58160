/* Streams, events and recordings of the host device (host.c): a stream is a queue of work items and
 * a thread that runs them in order; without a thread each item runs at the call. The functions
 * implement the entries of the same names in loader/device/device.h, with the same thread rule. */
#ifndef FF_LOADER_DEVICE_HOST_STREAM_H
#define FF_LOADER_DEVICE_HOST_STREAM_H

#include "loader/device/device.h"

#include "format/base/thread.h"

typedef enum ff_work_kind {
    FF_WORK_COPY,
    FF_WORK_FILL,
    FF_WORK_CALL,
    FF_WORK_RECORD,
    FF_WORK_WAIT,
} ff_work_kind;

typedef struct ff_work {
    struct ff_work *next;
    ff_work_kind kind;
    void *to; /* copy, fill */
    const void *from;
    uint64_t bytes;
    uint8_t value;
    void (*function)(void *context); /* call */
    void *context;
    void (*release)(void *context); /* called when the item will not run again; NULL = none */
    ff_event *event;                /* record, wait */
    uint64_t generation;            /* of the event; in a recording: the record's number */
    struct ff_branch *branch;       /* in a recording: the branch that runs it */
    struct ff_branch *awaited; /* wait in a recording: for this branch's first `generation` items */
} ff_work;

/* Random delays: one item in four waits up to `most_ns`. */
typedef struct ff_delays {
    uint64_t most_ns, random;
} ff_delays;

/* The part of a recording that one stream runs; during the capture `stream` is that stream. */
typedef struct ff_branch {
    struct ff_branch *next;
    ff_stream *stream;
    uint64_t given;     /* number of items, including waits */
    uint64_t joined;    /* number of items that another stream of the capture waits for */
    ff_event *progress; /* its generation = the number of items done in all launches */
    ff_delays delays;
} ff_branch;

/* An event's generations count its records. The event is done when the work enqueued before its
 * last record is done. */
struct ff_event {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t recorded, done; /* numbers of records enqueued and reached */
    uint64_t done_ns;
    bool timed;
    bool captured;          /* last recorded in a capture: no meaning outside it */
    ff_recording *capture;  /* during that capture */
    ff_branch *branch;      /* the branch that recorded the event */
    uint64_t position;      /* the record's position in that branch */
    ff_event *next_capture; /* the capture's next event */
};

struct ff_stream {
    ff_threads *thread; /* NULL: work runs in the caller */
    ff_delays delays;
    uint64_t seed; /* seed of the delays */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    ff_work *head, **tail;
    uint64_t given, done; /* numbers of work items */
    bool stop;
    ff_recording *capture; /* the stream's capture; NULL = none */
    ff_branch *branch;     /* the stream's branch of that capture */
};

/* A launch runs each branch in a separate thread, ordered only by the capture's waits: the first
 * branch in the stream's thread, the others in the recording's threads. If work runs in the caller,
 * all branches run there in the order of the capture. */
struct ff_recording {
    pthread_mutex_t running; /* held during a launch */
    ff_work *head, **tail;   /* of all branches, in the order of the capture */
    uint64_t records;        /* number of external ones */
    ff_branch *first;        /* the last of the list `branch` */
    ff_branch *branch;
    int branch_count;
    ff_event *event;
    ff_status status;    /* status of the first call in the capture that failed */
    ff_threads *threads; /* run all branches except the first; NULL = none */
    ff_event *begun;     /* its generations count launches */
    uint64_t launches;
    const uint64_t *generation; /* generations of the events that this launch records */
    bool stop;
};

ff_status ff_host_stream_create(ff_stream **stream, bool thread, uint64_t delay_ns, uint64_t seed,
                                ff_error *error);
void ff_host_stream_destroy(ff_stream *stream);
ff_status ff_host_stream_synchronize(ff_stream *stream, ff_error *error);
ff_status ff_host_stream_wait(ff_stream *stream, ff_event *event, ff_error *error);

/* Runs the item in the stream, or records it if the stream is in a capture; on success the stream
 * owns `context`. */
ff_status ff_host_stream_give(ff_stream *stream, ff_work piece, ff_error *error);

ff_delays ff_host_delays(uint64_t most_ns, uint64_t seed);
/* Runs an item; `generation` is its event's generation. */
void ff_host_perform(ff_delays *delays, const ff_work *piece, uint64_t generation);

ff_status ff_host_event_create(ff_event **event, bool timed, ff_error *error);
void ff_host_event_destroy(ff_event *event);
ff_status ff_host_event_record(ff_event *event, ff_stream *stream, bool external, ff_error *error);
ff_status ff_host_event_synchronize(ff_event *event, ff_error *error);
bool ff_host_event_done(ff_event *event);
ff_status ff_host_event_elapsed(ff_event *from, ff_event *to, uint64_t *ns, ff_error *error);
/* Starts the next generation; marks a generation as reached. */
uint64_t ff_host_event_next(ff_event *event);
void ff_host_event_reach(ff_event *event, uint64_t generation);
/* Waits until a generation is reached. */
void ff_host_event_await(ff_event *event, uint64_t generation);

ff_status ff_host_capture_begin(ff_stream *stream, ff_error *error);
ff_status ff_host_capture_end(ff_stream *stream, ff_recording **recording, ff_error *error);
ff_status ff_host_recording_launch(ff_recording *recording, ff_stream *stream, ff_error *error);
void ff_host_recording_destroy(ff_recording *recording);

/* In a capture: records an item; makes the event cover the branch so far; makes the stream wait for
 * the event, joining the capture if the stream is in none. */
ff_status ff_host_capture_piece(ff_stream *stream, ff_work piece, ff_error *error);
ff_status ff_host_capture_record(ff_event *event, ff_stream *stream, bool external,
                                 ff_error *error);
ff_status ff_host_capture_wait(ff_stream *stream, ff_event *event, ff_error *error);

#endif
