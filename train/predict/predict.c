#include "train/predict/predict.h"

#include "format/base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- networks ---- */

static const struct {
    const char *name;
    double latency_s, bytes_per_s;
} known[] = {
    {"1GbE", 50e-6, 0.94 * 125e6},    {"10GbE", 30e-6, 0.94 * 1.25e9},
    {"25GbE", 20e-6, 0.94 * 3.125e9}, {"100GbE", 10e-6, 0.94 * 12.5e9},
    {"NVLink", 3e-6, 0.8 * 450e9},
};
enum { KNOWN = sizeof known / sizeof *known };

/* A number of messages one after another, and of bytes through a rank's link. */
typedef struct path {
    double messages, bytes;
} trip;

static trip direct_trip(int ranks, double bytes) {
    return (trip){ranks > 1 ? 2 : 0, 2.0 * (ranks - 1) / ranks * bytes};
}
static trip ring_trip(int ranks, double bytes) {
    return (trip){2.0 * (ranks - 1), 2.0 * (ranks - 1) / ranks * bytes};
}
static trip tree_trip(int ranks, double bytes) {
    return (trip){2 * ceil(log2(ranks)), ranks > 1 ? 2 * bytes : 0};
}

static double trip_s(const ff_net *net, trip p) {
    return p.messages * net->latency_s + p.bytes / net->bytes_per_s;
}

static double formula_s(const ff_net *net, int ranks, double bytes) {
    if (net->direct) return trip_s(net, direct_trip(ranks, bytes));
    return fmin(trip_s(net, ring_trip(ranks, bytes)), trip_s(net, tree_trip(ranks, bytes)));
}

/* The measured time divided by the formula's, interpolated by the logarithm of the size. */
static double relative(const ff_net *net, double bytes) {
    double ratio[2];
    int i = 0;
    if (net->count == 0) return 1;
    while (i < net->count - 2 && net->bytes[i + 1] < bytes) i++;
    for (int k = 0; k < 2; k++) {
        const int at = i + k < net->count ? i + k : i;
        ratio[k] = net->seconds[at] / formula_s(net, net->ranks, net->bytes[at]);
    }
    if (bytes <= net->bytes[0]) return ratio[0];
    if (bytes >= net->bytes[net->count - 1]) return ratio[1];
    const double part = log(bytes / net->bytes[i]) / log(net->bytes[i + 1] / net->bytes[i]);
    return ratio[0] + part * (ratio[1] - ratio[0]);
}

double ff_net_all_reduce_s(const ff_net *net, int ranks, double bytes) {
    if (ranks < 2 || bytes <= 0) return 0;
    return formula_s(net, ranks, bytes) * relative(net, bytes);
}

/* Fits the latency and the rate by least squares of the relative errors. */
static void fit(ff_net *net) {
    double mm = 0, mb = 0, bb = 0, m1 = 0, b1 = 0;
    for (int i = 0; i < net->count; i++) {
        const trip p = net->direct ? direct_trip(net->ranks, net->bytes[i])
                                   : ring_trip(net->ranks, net->bytes[i]);
        const double m = p.messages / net->seconds[i], b = p.bytes / net->seconds[i];
        mm += m * m;
        mb += m * b;
        bb += b * b;
        m1 += m;
        b1 += b;
    }
    const double determinant = mm * bb - mb * mb;
    double latency = determinant > 0 ? (m1 * bb - b1 * mb) / determinant : 0;
    double pace = determinant > 0 ? (b1 * mm - m1 * mb) / determinant : b1 / bb;
    if (latency < 0) latency = 0, pace = b1 / bb;
    if (pace <= 0) latency = m1 / mm, pace = 1e-15;
    net->latency_s = latency;
    net->bytes_per_s = 1 / pace;
}

static ff_status read_sizes(ff_net *net, const json_t *list, const char *path, ff_error *error) {
    size_t i;
    json_t *entry;
    if (!json_is_array(list) || json_array_size(list) < 1 || json_array_size(list) > FF_NET_SIZES)
        return ff_fail(error, FF_BAD_DATA, "%s: all_reduce is not a list of 1 to %d sizes", path,
                       FF_NET_SIZES);
    json_array_foreach(list, i, entry) {
        const double bytes = json_number_value(json_object_get(entry, "bytes"));
        const double seconds = json_number_value(json_object_get(entry, "seconds"));
        if (!(bytes > (i ? net->bytes[i - 1] : 0)) || !(seconds > 0) || !isfinite(seconds))
            return ff_fail(error, FF_BAD_DATA,
                           "%s: all_reduce[%zu] has no bytes above those before it, or no seconds",
                           path, i);
        net->bytes[i] = bytes;
        net->seconds[i] = seconds;
    }
    net->count = (int)i;
    return FF_OK;
}

static ff_status read_measured(ff_net *net, const char *path, ff_error *error) {
    json_error_t where;
    json_t *read = json_load_file(path, 0, &where);
    const char *communicator = json_string_value(json_object_get(read, "communicator"));
    const bool nccl = communicator && strcmp(communicator, "nccl") == 0;
    const json_int_t ranks = json_integer_value(json_object_get(read, "ranks"));
    ff_status status = FF_OK;
    if (!read)
        status = ff_fail(error, FF_BAD_DATA, "%s: %s (line %d)", path, where.text, where.line);
    else if (!communicator || ranks < 2 || ranks > 1000000)
        status =
            ff_fail(error, FF_BAD_DATA,
                    "%s is not a file of fftrain measure-net: it lacks the communicator, or has "
                    "not 2 ranks or more",
                    path);
    else
        status = read_sizes(net, json_object_get(read, "all_reduce"), path, error);
    if (status == FF_OK) {
        snprintf(net->name, sizeof net->name, "%s", path);
        net->direct = !nccl;
        net->ranks = (int)ranks;
        fit(net);
    }
    json_decref(read);
    return status;
}

ff_status ff_net_open(ff_net *net, const char *name, bool direct, ff_error *error) {
    *net = (ff_net){.direct = direct};
    for (int i = 0; i < KNOWN; i++) {
        if (strcasecmp(name, known[i].name) != 0) continue;
        snprintf(net->name, sizeof net->name, "%s", known[i].name);
        net->latency_s = known[i].latency_s;
        net->bytes_per_s = known[i].bytes_per_s;
        return FF_OK;
    }
    FILE *file = fopen(name, "rb");
    if (!file)
        return ff_fail_errno(error,
                             "--net %s: is not one of " FF_NET_NAMES
                             ", and no file of fftrain measure-net that can be opened",
                             name);
    fclose(file);
    return read_measured(net, name, error);
}

/* ---- steps ---- */

ff_prediction ff_predict(const ff_rank_times *times, const ff_net *net, int ranks,
                         ff_rank_change change) {
    const double before = times->before_s * change.samples;
    const double backward = times->backward_s * change.samples;
    ff_prediction p = {.compute_s = times->micro_batches * (before + backward) + times->update_s};
    double through = 0; /* from the beginning of the last backward pass */
    for (int i = 0; i < times->bucket_count;) {
        double bytes = 0, ready = 0;
        for (int k = 0; k < change.merged && i < times->bucket_count; k++, i++) {
            bytes += times->buckets[i].bytes * change.bytes;
            ready = times->buckets[i].ready_s * change.samples;
        }
        const double took = ff_net_all_reduce_s(net, ranks, bytes);
        through = fmax(through, ready) + took;
        p.reduce_s += took;
    }
    p.exposed_s = fmax(0, through - backward);
    p.step_s = p.compute_s + p.exposed_s;
    p.efficiency = p.step_s > 0 ? p.compute_s / p.step_s : 1;
    return p;
}
