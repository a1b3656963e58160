/* Threads. Every function here is thread-safe unless stated otherwise. */
#ifndef FF_BASE_THREAD_H
#define FF_BASE_THREAD_H

#include "format/base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of CPUs that this process may use (by affinity and cgroup quota), at least 1. */
int ff_cpu_count(void);

/* A group of threads that all run `body(context, index)` with index 0..count-1. */
typedef struct ff_threads ff_threads;
typedef void (*ff_thread_body)(void *context, int index);

/* Starts `count` threads named "name-index". On failure *threads holds the threads that did start
 * (or NULL): the caller stops and joins them as after success. The threads block all signals except
 * faults, so that a handler runs on the main thread. */
FF_MUST_USE ff_status ff_threads_start(ff_threads **threads, int count, const char *name,
                                       ff_thread_body body, void *context, ff_error *error);

/* The same with small stacks, for many threads that mostly wait: default stacks, usually 8 MiB
 * each, count against the address space that `ulimit -v` allows. */
FF_MUST_USE ff_status ff_threads_start_small(ff_threads **threads, int count, const char *name,
                                             ff_thread_body body, void *context, ff_error *error);

/* Waits until all threads return, and frees; *threads = NULL. NULL is accepted. The caller makes
 * the threads stop first. */
void ff_threads_join(ff_threads **threads);

/* Runs body(context, index) for index in [0, count) on `thread_count` threads including the
 * caller's, and returns when all are done. Indexes are handed out in increasing order. */
FF_MUST_USE ff_status ff_parallel_for(int thread_count, size_t count,
                                      void (*body)(void *context, size_t index), void *context,
                                      ff_error *error);

/* Monotonic time in nanoseconds. */
uint64_t ff_now_ns(void);
/* What the calling thread has used so far. Costs two system calls. */
typedef struct ff_usage {
    uint64_t busy_ns;       /* processor time */
    uint64_t pages_awaited; /* major faults: pages that it waited for while they were read */
    /* What the storage read for it, including faults and the kernel's read-ahead; 0 if the file
     * system does not count bytes (FUSE). */
    uint64_t bytes_read;
} ff_usage;
ff_usage ff_usage_now(void);

/* How long threads that work wait for a processor. Asking the kernel costs some microseconds, so at
 * most one piece of work per millisecond is measured. Zeroed at first. */
typedef struct ff_queue_watch {
    uint64_t next_ns;
    uint64_t looked_ns, queued_ns; /* the pieces' time, and what of it was waiting */
} ff_queue_watch;
typedef struct ff_queue_look {
    uint64_t began_ns, queued_ns;
    bool looks;
} ff_queue_look;
/* Begins a piece of the calling thread's work. The caller holds the lock of the watch. */
ff_queue_look ff_queue_begin(ff_queue_watch *watch);
/* Ends the piece. The caller holds the lock again. */
void ff_queue_end(ff_queue_watch *watch, const ff_queue_look *look);
/* The share of the time that threads waited for a processor. */
double ff_queue_share(const ff_queue_watch *watch);

#endif
