/* fftrain measure-net: how long all_reduce takes among the ranks of a job, by size; for --dry-run
 * --world. */
#include "format/base/json.h"
#include "format/base/memory.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "loader/device/host.h"
#include "train/comm/job/devices.h"
#include "train/comm/job/job.h"
#include "train/comm/job/launch.h"
#include "train/commands/command.h"
#include "train/machine/machine.h"
#include "train/predict/predict.h"

#include <stdlib.h>
#include <string.h>

typedef struct given {
    const char *file, *device, *dp;
    int64_t ranks, timeout;
    bool done; /* --help was printed */
} given;

static ff_status parse(given *out, int argc, char **argv, ff_error *error) {
    const ff_option table[] = {
        {"out", 'o', FF_OPTION_STRING, "FILE", &out->file, NULL, 0, 0,
         "Write the times into this file, for --net of fftrain --dry-run --world."},
        {"ranks", 0, FF_OPTION_INTEGER, "N", &out->ranks, NULL, 2, 64,
         "Start N ranks on this machine; torchrun, mpirun and srun start them on several."},
        {"dp", 0, FF_OPTION_STRING, "LIST", &out->dp, NULL, 0, 0,
         "Start a rank on each of these devices instead, as in training: 0,1 or cpu,cpu."},
        {"device", 0, FF_OPTION_STRING, "auto|cpu|cuda[:I]", &out->device, NULL, 0, 0,
         "Where the values are; default auto."},
        {"rank-timeout", 0, FF_OPTION_INTEGER, "SECONDS", &out->timeout, NULL, 1, 86400,
         "A rank that is silent for longer is lost; default 60."},
        {.name = NULL},
    };
    const ff_command command = {
        .program = "fftrain measure-net",
        .usage = "fftrain measure-net [-o FILE] [--ranks N | --dp LIST]",
        .summary = "Measures how long the ranks of a job take to sum values of several sizes: the "
                   "median of some sums, at rank 0.",
        .options = table,
        .epilogue =
            "\n"
            "Examples:\n"
            "  mpirun --hostfile HOSTS fftrain measure-net -o net.json\n"
            "  fftrain --data OUT --model resnet50 --dry-run --world 64 --net net.json\n"
            "\n"
            "FILE has {communicator, ranks, all_reduce: [{bytes, seconds}]}.\n"
            "\n"
            "Exit codes: 0 done, 1 failed, 2 wrong usage, 74 input or output error, 128 + n\n"
            "stopped by signal n.",
    };
    ff_positionals words;
    ff_status status = ff_options_parse(&command, argc, argv, &words, error);
    out->done = words.done;
    if (status == FF_OK && !out->done && words.count)
        status = ff_fail(error, FF_USAGE, "unexpected argument '%s'", words.operand[0]);
    ff_positionals_free(&words);
    if (status != FF_OK || out->done) return status;
    if (out->dp && (out->ranks || out->device))
        return ff_fail(error, FF_USAGE, "--dp excludes --ranks and --device");
    return out->device ? ff_machine_check(out->device, error) : FF_OK;
}

/* ---- measuring ---- */

enum { LEAST = 64, MOST = 16 << 20, ROUNDS = 100, ROUNDS_LEAST = 3, SIZE_NS = 300000000 };

typedef struct bench {
    ff_job *job;
    ff_device *device; /* of the values */
    ff_device *streams;
    ff_stream *stream;
    void *values;
} bench;

static ff_status take_time(const bench *b, size_t bytes, uint64_t *ns, ff_error *error) {
    ff_comm *comm = b->job->comm;
    const uint64_t begun = ff_now_ns();
    FF_TRY(ff_interrupt_check(error));
    FF_TRY(
        comm->table->all_reduce(comm, b->stream, b->values, bytes / sizeof(float), FF_F32, error));
    FF_TRY(b->streams->table->stream_synchronize(b->streams, b->stream, error));
    *ns = ff_now_ns() - begun;
    return comm->table->check(comm, error);
}

static int compare(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Rank 0 decides how many rounds fit into the time. */
static ff_status time_size(const bench *b, size_t bytes, double *seconds, ff_error *error) {
    uint64_t ns[ROUNDS], rounds;
    FF_TRY(take_time(b, bytes, &ns[0], error));
    FF_TRY(take_time(b, bytes, &ns[0], error));
    rounds = SIZE_NS / (ns[0] + 1);
    if (rounds < ROUNDS_LEAST) rounds = ROUNDS_LEAST;
    if (rounds > ROUNDS) rounds = ROUNDS;
    FF_TRY(ff_job_broadcast(b->job, &rounds, sizeof rounds, error));
    if (rounds < 1 || rounds > ROUNDS)
        return ff_fail(error, FF_FAILED, "rank 0 has another version of fftrain");
    for (uint64_t i = 0; i < rounds; i++) FF_TRY(take_time(b, bytes, &ns[i], error));
    qsort(ns, rounds, sizeof *ns, compare);
    *seconds = (double)ns[rounds / 2] * 1e-9;
    return FF_OK;
}

static ff_status measure(bench *b, ff_net *net, ff_error *error) {
    const ff_device_table *table = b->device->table;
    ff_status status;
    FF_TRY_DONE(b->streams->table->stream_create(b->streams, &b->stream, error));
    FF_TRY_DONE(table->allocate(b->device, &b->values, MOST, "the values", error));
    FF_TRY_DONE(table->fill(b->device, b->stream, b->values, 0, MOST, error));
    for (size_t bytes = LEAST; bytes <= MOST; bytes *= 4) {
        net->bytes[net->count] = (double)bytes;
        FF_TRY_DONE(time_size(b, bytes, &net->seconds[net->count], error));
        net->count++;
    }
done:
    b->streams->table->stream_destroy(b->streams, b->stream);
    table->release(b->device, b->values);
    return status;
}

/* ---- the result ---- */

static ff_status write_net(const ff_net *net, const char *communicator, const char *path,
                           ff_error *error) {
    json_t *list = json_array();
    int failed = 0;
    for (int i = 0; i < net->count; i++)
        failed |=
            json_array_append_new(list, json_pack("{s:I, s:f}", "bytes", (json_int_t)net->bytes[i],
                                                  "seconds", net->seconds[i]));
    json_t *object = json_pack("{s:s, s:i, s:o}", "communicator", communicator, "ranks", net->ranks,
                               "all_reduce", list);
    ff_status status = FF_OK;
    if (failed || !object)
        status = ff_fail(error, FF_NO_MEMORY, "no memory for the times");
    else if (json_dump_file(object, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) != 0)
        status = ff_fail_errno(error, "%s: cannot be written", path);
    json_decref(object);
    return status;
}

static ff_status report(const given *own, const ff_job *job, const ff_net *net, ff_error *error) {
    const ff_comm *comm = job->comm;
    const double shared = 2.0 * (net->ranks - 1) / net->ranks;
    printf("all_reduce among %d ranks by \"%s\"; the rate of a rank's link in each direction\n",
           net->ranks, comm->table->name);
    for (int i = 0; i < net->count; i++)
        printf("%10s  %12.1f us  %14s\n", ff_say_bytes((uint64_t)net->bytes[i]).text,
               net->seconds[i] * 1e6,
               ff_say_byte_rate(shared * net->bytes[i] / net->seconds[i]).text);
    return own->file ? write_net(net, comm->table->name, own->file, error) : FF_OK;
}

static ff_status run_rank(void *context, ff_job *job, ff_error *error) {
    const given *own = context;
    const ff_machine_options options = {.device = own->device,
                                        .local_rank = ff_job_local_rank(job)};
    ff_machine *machine = NULL;
    ff_device *host = NULL;
    ff_net net = {.ranks = job->size};
    ff_status status;
    FF_TRY_DONE(ff_machine_open(&machine, &options, error));
    const ff_model_device *gpu = ff_machine_device(machine);
    if (!gpu) FF_TRY_DONE(ff_device_host_create(&host, FF_HOST_STREAMS_CALLER, error));
    bench b = {.job = job, .device = gpu ? gpu->device : host};
    const ff_job_gpu own_gpu = ff_machine_gpu(machine);
    FF_TRY_DONE(ff_job_connect(job, b.device, own_gpu.create ? &own_gpu : NULL, false, error));
    b.streams = job->streams ? job->streams : b.device;
    FF_TRY_DONE(measure(&b, &net, error));
    if (job->rank == 0) status = report(own, job, &net, error);
done:
    status = ff_job_conclude(job, status, error);
    ff_job_disconnect(job);
    ff_device_destroy(&host);
    ff_machine_close(&machine);
    return status;
}

ff_status ff_command_measure_net(int argc, char **argv, ff_error *error) {
    given own = {.timeout = 60};
    ff_rank_devices devices;
    ff_ranks ranks = {0};
    ff_status status = parse(&own, argc, argv, error);
    if (status != FF_OK || own.done) return status;
    const ff_rank_work work = {run_rank, &own, (uint64_t)own.timeout * 1000000000};
    FF_TRY_DONE(ff_rank_devices_parse(&devices, own.dp, NULL, error));
    FF_TRY_DONE(ff_ranks_read(&ranks, error));
    const int count = devices.count ? devices.count : (int)own.ranks;
    if (count > 1 && !ff_ranks_are_own(&ranks)) {
        /* The program's own arguments; argv lacks the first. */
        status = ff_ranks_start(count, argv - 1, work.timeout_ns, error);
        goto done;
    }
    ff_interrupt_install(0);
    if (devices.count) own.device = devices.name[ranks.rank % devices.count];
    if (ranks.size > 1)
        status = ff_rank_run(&ranks, &work, error);
    else
        status = ff_fail(error, FF_USAGE,
                         "nothing to measure between: name --ranks N or --dp LIST of two at least, "
                         "or start ranks with torchrun, mpirun or srun");
done:
    ff_ranks_free(&ranks);
    return status;
}
