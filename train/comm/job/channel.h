/* The control channel of a job: a TCP connection from every rank to rank 0, with a thread that
 * sends and watches heartbeats. It carries what is not on the way of a step: rendezvous, agreement,
 * checksums, and the reason why a rank failed. For replicas that are threads of one process the
 * same interface without sockets.
 *
 * Failure: where a rank reports one, ends, or is not heard of for `timeout_ns`, every rank learns
 * its name ("rank 3 (host b, process 4711)") and the reason; pending and further calls end with it.
 *
 * Thread rule: gather from one thread at a time; report and check from any thread. */
#ifndef FF_TRAIN_COMM_CHANNEL_H
#define FF_TRAIN_COMM_CHANNEL_H

#include "format/base/memory.h"
#include "train/comm/job/ranks.h"

typedef struct ff_channel ff_channel;

typedef struct ff_channel_options {
    uint64_t timeout_ns; /* a rank that is silent for longer is lost; also of opening */
    /* Called once when any rank has failed, in the channel's thread or in the one that finds it (of
     * replicas: once for all): to abort communicators. May be NULL; may check. */
    void (*failed)(void *context, const char *why);
    void *context;
} ff_channel_options;

/* Waits for all ranks. FF_FAILED: a rank is missing, comes twice or has another size or version. */
FF_MUST_USE ff_status ff_channel_open(ff_channel **channel, const ff_ranks *ranks,
                                      const ff_channel_options *options, ff_error *error);
/* channels[count]: one for each thread of this process; thread `i` is rank i. */
FF_MUST_USE ff_status ff_channel_open_threads(ff_channel **channels, int count,
                                              const ff_channel_options *options, ff_error *error);

/* Sends `length` bytes (at most 16 MiB), the same number at every rank or not, and receives those
 * of all ranks, in their order: parts[size], the caller's, each freed with ff_buffer_free. Every
 * rank calls it in the same order; it is a barrier. On failure the parts are empty. */
FF_MUST_USE ff_status ff_channel_gather(ff_channel *channel, const void *bytes, size_t length,
                                        ff_buffer *parts, ff_error *error);
/* FF_OK, or FF_FAILED naming the rank that was lost and the reason, again at every later call. */
FF_MUST_USE ff_status ff_channel_check(ff_channel *channel, ff_error *error);
/* The same, after waiting for a failure for up to `wait_ns`. For a rank whose communicator has
 * failed, or that is told to end by a signal: the lost rank that caused it may be known only a
 * moment later, and has to be named first. */
FF_MUST_USE ff_status ff_channel_await_failure(ff_channel *channel, uint64_t wait_ns,
                                               ff_error *error);
/* This rank ends with an error, which every rank learns. */
void ff_channel_report(ff_channel *channel, const char *why);
/* How a rank ends whose work returned `status` and `error`: where it failed or was stopped because
 * another rank was lost, FF_FAILED with that rank's name and reason; else the same. A failure is
 * reported; an end by a signal is none, nor is one with FF_PREEMPTED, on which all ranks agree. */
FF_MUST_USE ff_status ff_channel_conclude(ff_channel *channel, ff_status status, ff_error *error);
/* A rank that closes without ff_channel_report has ended well. NULL is accepted. */
void ff_channel_close(ff_channel **channel);

#endif
