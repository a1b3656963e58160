/* Threads. Every function here is thread-safe unless it says otherwise. */
#ifndef FF_BASE_THREAD_H
#define FF_BASE_THREAD_H

#include "format/base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of CPUs this process may run on (affinity and cgroup quota respected), at least 1. */
int ff_cpu_count(void);

/* A group of threads that all run `body(context, index)` with index 0..count-1. */
typedef struct ff_threads ff_threads;
typedef void (*ff_thread_body)(void *context, int index);

/* Starts `count` threads named "name-index". On failure *threads holds those that did start (or
 * NULL): the caller stops and joins them as after success. Signals other than faults are blocked in
 * them, so that a handler runs on the main thread. */
FF_MUST_USE ff_status ff_threads_start(ff_threads **threads, int count, const char *name,
                                       ff_thread_body body, void *context, ff_error *error);

/* The same with small stacks, for many threads that mostly wait: the default, mostly 8 MiB each, is
 * taken from the addresses that `ulimit -v` leaves. */
FF_MUST_USE ff_status ff_threads_start_small(ff_threads **threads, int count, const char *name,
                                             ff_thread_body body, void *context, ff_error *error);

/* Waits for all to return and frees; *threads = NULL. NULL is accepted. The caller tells them to
 * stop first. */
void ff_threads_join(ff_threads **threads);

/* Runs body(context, index) for index in [0, count) on `thread_count` threads including the
 * caller's, and returns when all are done. Indexes are handed out in increasing order. */
FF_MUST_USE ff_status ff_parallel_for(int thread_count, size_t count,
                                      void (*body)(void *context, size_t index), void *context,
                                      ff_error *error);

/* Monotonic time in nanoseconds. */
uint64_t ff_now_ns(void);
/* The processor's time of the calling thread, in nanoseconds. */
uint64_t ff_busy_ns(void);
/* The pages that the calling thread waited for so far, as they had to be read: major
 * faults. */
uint64_t ff_pages_awaited(void);
/* The bytes that the calling thread had the storage read so far, also by faults and what they read
 * ahead; 0 where the file system does not count them (FUSE). */
uint64_t ff_bytes_read(void);

#endif
