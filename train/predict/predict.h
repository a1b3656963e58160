/* How long a step takes on N ranks, predicted from the times of one device and what a network
 * can do. Pure, but for reading a measured network.
 *
 * all_reduce of S bytes among N ranks, each with a link of B bytes a second in each direction,
 * where a message takes L seconds besides its bytes:
 *   ring    2 (N - 1) L + 2 (N - 1) / N * S / B   Patarasuk and Yuan 2009
 *   tree    2 ceil(log2 N) L + 2 S / B            two trees, pipelined: Sanders et al. 2009
 *   direct  2 L + 2 (N - 1) / N * S / B           slices to all, sums from all (comm/host.h)
 * NCCL takes the faster one of the first two; the communicators of the host the last. A network
 * that was measured among M ranks fits L and B to its times, and scales the formula by what was
 * measured at that size relative to it: for N = M the times are the measured ones.
 *
 * A step: the buckets are reduced one after another, each as soon as the backward pass of the last
 * micro-batch has completed it and the one before is through; per-channel gradients and outcomes
 * go last; the update follows when all is done. Links are not shared, ranks are alike, data is
 * never waited for, and computing is not slowed by the reduction. */
#ifndef FF_TRAIN_COMM_PREDICT_H
#define FF_TRAIN_COMM_PREDICT_H

#include "format/base/status.h"

#include <stdbool.h>

enum { FF_NET_SIZES = 64 };

typedef struct ff_net {
    char name[128];
    bool direct; /* communicators of the host; else NCCL's */
    double latency_s, bytes_per_s;
    int ranks, count; /* measured: among how many; how many sizes, 0 = none */
    double bytes[FF_NET_SIZES], seconds[FF_NET_SIZES]; /* by increasing size */
} ff_net;

#define FF_NET_NAMES "1GbE, 10GbE, 25GbE, 100GbE, NVLink"

/* One of FF_NET_NAMES (estimates: 94 % of the link's rate, latencies as of sockets; as of NVLink
 * 4), or a file of `fftrain measure-net`, which says itself whether it is direct. FF_USAGE for
 * another name, FF_IO, FF_BAD_DATA. */
FF_MUST_USE ff_status ff_net_open(ff_net *net, const char *name, bool direct, ff_error *error);

double ff_net_all_reduce_s(const ff_net *net, int ranks, double bytes);

typedef struct ff_bucket_time {
    double ready_s; /* from the beginning of the backward pass */
    double bytes;
} ff_bucket_time;

/* Of a rank's micro-batch. */
typedef struct ff_rank_times {
    double before_s; /* forward pass, loss */
    double backward_s, update_s;
    int micro_batches;             /* of a step */
    const ff_bucket_time *buckets; /* and what goes last */
    int bucket_count;
} ff_rank_times;

/* What might be changed; {1, 1, 1} = nothing. */
typedef struct ff_rank_change {
    double samples; /* times as many in a micro-batch, and as much time */
    double bytes;   /* times as many in a bucket: 0.5 for f32 sent as f16 */
    int merged;     /* as many buckets become one */
} ff_rank_change;

typedef struct ff_prediction {
    double compute_s; /* without any reduction */
    double reduce_s;  /* of all */
    double exposed_s; /* of that, after the backward pass */
    double step_s;
    double efficiency; /* compute_s / step_s */
} ff_prediction;

ff_prediction ff_predict(const ff_rank_times *times, const ff_net *net, int ranks,
                         ff_rank_change change);

#endif
