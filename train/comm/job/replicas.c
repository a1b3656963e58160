#include "train/comm/job/replicas.h"

#include "format/base/thread.h"
#include "train/comm/job/shares.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

static ff_status parse_device(ff_replicas *replicas, const char *text, size_t length,
                              ff_error *error) {
    char word[16] = "", *name, *end;
    if (replicas->count == FF_REPLICAS)
        return ff_fail(error, FF_USAGE, "--dp: more than %d replicas", FF_REPLICAS);
    name = replicas->device[replicas->count];
    if (length && length < sizeof word) memcpy(word, text, length);
    const char *number = strncmp(word, "cuda:", 5) == 0 ? word + 5 : word;
    const unsigned long ordinal = strtoul(number, &end, 10);
    if (strcmp(word, "cpu") == 0)
        snprintf(name, sizeof replicas->device[0], "cpu");
    else if (*number >= '0' && *number <= '9' && !*end && ordinal < 1024)
        snprintf(name, sizeof replicas->device[0], "cuda:%lu", ordinal);
    else
        return ff_fail(
            error, FF_USAGE,
            "--dp: '%.*s' is not a device; devices are numbers of GPUs, as in 0,1,2, or cpu",
            (int)length, text);
    for (int i = 0; i < replicas->count && strcmp(name, "cpu") != 0; i++)
        if (strcmp(replicas->device[i], name) == 0)
            return ff_fail(error, FF_USAGE,
                           "--dp: device %lu is named twice; 2x%lu puts two replicas on it",
                           ordinal, ordinal);
    if (replicas->count && (strcmp(name, "cpu") == 0) != (strcmp(replicas->device[0], "cpu") == 0))
        return ff_fail(error, FF_USAGE, "--dp: replicas are on GPUs or on the CPU, not on both");
    replicas->count++;
    return FF_OK;
}

/* "2x0": replicas that share a device. */
static ff_status repeat_last(ff_replicas *replicas, unsigned long copies, ff_error *error) {
    if (copies < 1 || copies > (unsigned long)(FF_REPLICAS - replicas->count + 1))
        return ff_fail(error, FF_USAGE, "--dp: %lu replicas on a device; 1 to %d are possible",
                       copies, FF_REPLICAS);
    for (; copies > 1; copies--, replicas->count++)
        memcpy(replicas->device[replicas->count], replicas->device[replicas->count - 1],
               sizeof replicas->device[0]);
    return FF_OK;
}

static ff_status parse_balance(ff_replicas *replicas, const char *balance, ff_error *error) {
    if (ff_shares_parse(balance, replicas->count, replicas->cuts)) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "--dp-balance %s: %d replicas need one number each, from 1 on, the parts of a "
                   "batch, as in 2,3,3; or auto",
                   balance, replicas->count);
}

ff_status ff_replicas_parse(ff_replicas *replicas, const char *devices, const char *balance,
                            ff_error *error) {
    *replicas = (ff_replicas){0};
    if (!devices && balance)
        return ff_fail(error, FF_USAGE, "--dp-balance needs --dp, the devices of the replicas");
    while (devices) {
        const size_t times = strspn(devices, "0123456789");
        const unsigned long copies = devices[times] == 'x' ? strtoul(devices, NULL, 10) : 1;
        if (devices[times] == 'x') devices += times + 1;
        const size_t length = strcspn(devices, ",");
        FF_TRY(parse_device(replicas, devices, length, error));
        FF_TRY(repeat_last(replicas, copies, error));
        devices = devices[length] ? devices + length + 1 : NULL;
    }
    for (int i = 0; i <= replicas->count; i++) replicas->cuts[i] = (uint32_t)i;
    return balance ? parse_balance(replicas, balance, error) : FF_OK;
}

/* ---- threads ---- */

typedef struct team {
    const ff_replicas *replicas;
    const ff_rank_work *work;
    ff_job jobs[FF_REPLICAS];
    ff_status status[FF_REPLICAS];
    ff_error error[FF_REPLICAS];
} team;

/* Whatever ends one rank early ends all ranks. */
static ff_status run_rank(ff_job *job, const ff_rank_work *work, const char *device,
                          ff_error *error) {
    return ff_job_conclude(job, work->run(work->context, job, device, error), error);
}

static void run_one(team *all, int rank) {
    ff_job *job = &all->jobs[rank];
    all->status[rank] = run_rank(job, all->work, all->replicas->device[rank], &all->error[rank]);
    ff_channel_close(&job->channel);
}

static void replica(void *context, int index) {
    run_one(context, index + 1);
}

static void abort_all(void *context, const char *why) {
    team *all = context;
    ff_job_abort(&all->jobs[0], why);
}

/* The failure of the rank that failed itself; the others only report it. */
static ff_status first_failure(const team *all, ff_error *error) {
    const int count = all->replicas->count;
    int which = 0;
    for (int i = 1; i < count; i++)
        if (all->status[i] != FF_OK &&
            (all->status[which] == FF_OK || all->status[which] == FF_FAILED) &&
            all->status[i] != FF_FAILED)
            which = i;
    for (int i = 1; i < count && all->status[which] == FF_OK; i++) which = i;
    if (error) *error = all->error[which];
    return all->status[which];
}

static ff_status run_all(team *all, ff_error *error) {
    const int count = all->replicas->count;
    ff_threads *threads;
    ff_status status = ff_threads_start(&threads, count - 1, "replica", replica, all, error);
    if (status == FF_OK)
        run_one(all, 0);
    else
        ff_channel_report(all->jobs[0].channel, "the other replicas cannot be started");
    ff_threads_join(&threads);
    return status == FF_OK ? first_failure(all, error) : status;
}

ff_status ff_replicas_run(const ff_replicas *replicas, const ff_rank_work *work, ff_error *error) {
    ff_channel *channels[FF_REPLICAS];
    team *all;
    const int count = replicas->count;
    ff_status status;
    FF_TRY(ff_alloc(&all, 1, sizeof *all, "replicas", error));
    all->replicas = replicas;
    all->work = work;
    const ff_channel_options how = {
        .timeout_ns = work->timeout_ns, .failed = abort_all, .context = all};
    FF_TRY_DONE(ff_channel_open_threads(channels, count, &how, error));
    for (int i = 0; i < count; i++)
        all->jobs[i] = (ff_job){.rank = i,
                                .size = count,
                                .local_size = count,
                                .cuts = replicas->cuts,
                                .timeout_ns = work->timeout_ns,
                                .channel = channels[i],
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .team = all->jobs};
    status = run_all(all, error);
    for (int i = 0; i < count; i++) {
        ff_channel_close(&all->jobs[i].channel); /* for replicas that did not run */
        free(all->jobs[i].places);
    }
done:
    free(all);
    return status;
}

/* ---- processes ---- */

static void abort_one(void *context, const char *why) {
    ff_job_abort(context, why);
}

ff_status ff_rank_run(const ff_ranks *ranks, const ff_rank_work *work, ff_error *error) {
    ff_job job = {.rank = ranks->rank,
                  .size = ranks->size,
                  .local_size = ranks->local_size,
                  .timeout_ns = work->timeout_ns,
                  .ranks = ranks,
                  .lock = PTHREAD_MUTEX_INITIALIZER};
    const ff_channel_options how = {
        .timeout_ns = work->timeout_ns, .failed = abort_one, .context = &job};
    uint32_t *cuts;
    ff_status status;
    FF_TRY(ff_alloc(&cuts, (uint64_t)ranks->size + 1, sizeof *cuts, "ranks", error));
    for (int i = 0; i <= ranks->size; i++) cuts[i] = (uint32_t)i;
    job.cuts = cuts;
    FF_TRY_DONE(ff_channel_open(&job.channel, ranks, &how, error));
    status = run_rank(&job, work, NULL, error);
done:
    ff_channel_close(&job.channel);
    free(job.places);
    free(cuts);
    return status;
}
