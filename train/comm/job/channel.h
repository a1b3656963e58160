/* The control channel of a job: a connection from every rank to rank 0, and a thread that sends
 * and watches heartbeats. It carries everything that a step does not wait for: rendezvous,
 * agreement, checksums, and the reason why a rank failed.
 *
 * Failure: if a rank reports a failure, ends, or is not heard of for `timeout_ns`, every rank
 * receives its name ("rank 3 (host b, process 4711)") and the reason. Pending and further calls
 * return this failure.
 *
 * Thread rule: gather from one thread at a time; report and check from any thread. */
#ifndef FF_TRAIN_COMM_CHANNEL_H
#define FF_TRAIN_COMM_CHANNEL_H

#include "format/base/memory.h"
#include "train/comm/job/ranks.h"

typedef struct ff_channel ff_channel;

typedef struct ff_channel_options {
    uint64_t timeout_ns; /* a rank that is silent for longer is lost; also for opening */
    /* Called once when any rank has failed, to abort communicators: in the channel's thread. May be
     * NULL; may call check. */
    void (*failed)(void *context, const char *why);
    void *context;
} ff_channel_options;

/* Waits for all ranks. FF_FAILED: a rank is missing, connects twice, or has another size or
 * version. */
FF_MUST_USE ff_status ff_channel_open(ff_channel **channel, const ff_ranks *ranks,
                                      const ff_channel_options *options, ff_error *error);

/* Sends `length` bytes (at most 16 MiB; ranks may send different numbers), and receives those of
 * all ranks, in the order of the ranks: parts[size], owned by the caller, each freed with
 * ff_buffer_free. Every rank calls it in the same order; it is a barrier. On failure the parts are
 * empty. */
FF_MUST_USE ff_status ff_channel_gather(ff_channel *channel, const void *bytes, size_t length,
                                        ff_buffer *parts, ff_error *error);
/* FF_OK, or FF_FAILED naming the lost rank and the reason, also at every later call. */
FF_MUST_USE ff_status ff_channel_check(ff_channel *channel, ff_error *error);
/* ff_channel_check, after waiting for a failure for up to `wait_ns`. Call it if the rank's
 * communicator has failed, or if a signal ends the rank: the lost rank that caused this may be
 * known only a moment later, and must be named first. */
FF_MUST_USE ff_status ff_channel_await_failure(ff_channel *channel, uint64_t wait_ns,
                                               ff_error *error);
/* Reports that this rank ends with an error, which every rank receives. */
void ff_channel_report(ff_channel *channel, const char *why);
/* Returns how a rank ends whose work returned `status` and `error`. If it failed or was stopped
 * because another rank was lost: FF_FAILED with that rank's name and reason; else `status`. A
 * failure is reported to the other ranks. An end by a signal is not a failure, nor is FF_PREEMPTED,
 * on which all ranks agree. */
FF_MUST_USE ff_status ff_channel_conclude(ff_channel *channel, ff_status status, ff_error *error);
/* A rank that closes without ff_channel_report has ended without a failure. NULL is accepted. */
void ff_channel_close(ff_channel **channel);

#endif
