/* Predicts how long a step takes on N ranks, from the times of one device and the limits of a
 * network. Pure, except for reading a measured network.
 *
 * The time of an all_reduce of S bytes among N ranks. Each rank has a link of B bytes a second in
 * each direction; a message takes L seconds in addition to its bytes:
 *   ring    2 (N - 1) L + 2 (N - 1) / N * S / B   Patarasuk and Yuan 2009
 *   tree    2 ceil(log2 N) L + 2 S / B            two trees, pipelined: Sanders et al. 2009
 *   direct  2 L + 2 (N - 1) / N * S / B           slices to all, sums from all (collective/host.h)
 * NCCL uses the faster of the first two, the communicators of the host use the last. For a network
 * that was measured among M ranks, L and B are fitted to the measured times. The formula is then
 * scaled by the ratio of measured and computed time at the same size, so for N = M the times are
 * the measured ones.
 *
 * A step reduces the buckets one after another. A bucket begins as soon as the backward pass of the
 * last micro-batch has completed it and the previous bucket is reduced. Per-channel gradients and
 * outcomes are reduced last; the update follows. Assumptions: links are not shared, ranks are
 * equally fast, steps never wait for data, and the reduction does not slow the computation. */
#ifndef FF_TRAIN_COMM_PREDICT_H
#define FF_TRAIN_COMM_PREDICT_H

#include "format/base/status.h"

#include <stdbool.h>

enum { FF_NET_SIZES = 64 };

typedef struct ff_net {
    char name[128];
    bool direct; /* the host's communicators; else NCCL */
    double latency_s, bytes_per_s;
    int ranks, count; /* measured: among how many ranks; number of sizes, 0 = none */
    double bytes[FF_NET_SIZES], seconds[FF_NET_SIZES]; /* by increasing size */
} ff_net;

#define FF_NET_NAMES "1GbE, 10GbE, 25GbE, 100GbE, NVLink"

/* Opens one of FF_NET_NAMES (estimates: 94 % of the link's rate, latencies of sockets; NVLink 4),
 * or a file of `fftrain measure-net`, which itself records whether it is direct. FF_USAGE for
 * another name, FF_IO, FF_BAD_DATA. */
FF_MUST_USE ff_status ff_net_open(ff_net *net, const char *name, bool direct, ff_error *error);

double ff_net_all_reduce_s(const ff_net *net, int ranks, double bytes);

typedef struct ff_bucket_time {
    double ready_s; /* from the beginning of the backward pass */
    double bytes;
} ff_bucket_time;

/* The times of a rank's micro-batch. */
typedef struct ff_rank_times {
    double before_s; /* forward pass, loss */
    double backward_s, update_s;
    int micro_batches;             /* per step */
    const ff_bucket_time *buckets; /* and what is reduced last */
    int bucket_count;
} ff_rank_times;

/* A change to a run; {1, 1, 1} = no change. */
typedef struct ff_rank_change {
    double samples; /* factor of a micro-batch's samples, and of their time */
    double bytes;   /* factor of a bucket's bytes: 0.5 for f32 sent as f16 */
    int merged;     /* number of buckets merged into one */
} ff_rank_change;

typedef struct ff_prediction {
    double compute_s; /* without any reduction */
    double reduce_s;  /* all reductions */
    double exposed_s; /* the part of reduce_s after the backward pass */
    double step_s;
    double efficiency; /* compute_s / step_s */
} ff_prediction;

ff_prediction ff_predict(const ff_rank_times *times, const ff_net *net, int ranks,
                         ff_rank_change change);

#endif
