#include "train/comm/job/job.h"

#include "loader/device/host.h"
#include "loader/host/options.h"
#include "train/comm/collective/mpi.h"
#include "train/comm/collective/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ff_job_share(const ff_job *job, uint64_t batch, bool pairs, uint64_t *first, uint64_t *rows) {
    const uint32_t total = job ? job->cuts[job->size] : 1;
    *first = job ? ff_loader_share(batch, job->cuts[job->rank], total, pairs) : 0;
    *rows = ff_loader_share(batch, job ? job->cuts[job->rank + 1] : 1, total, pairs) - *first;
}

/* ---- what ranks send each other ---- */

static ff_status gather(ff_job *job, const void *bytes, size_t length, ff_buffer **parts,
                        ff_error *error) {
    FF_TRY(ff_alloc(parts, (uint64_t)job->size, sizeof **parts, "facts of ranks", error));
    const ff_status status = ff_channel_gather(job->channel, bytes, length, *parts, error);
    if (status != FF_OK) {
        free(*parts);
        *parts = NULL;
    }
    return status;
}

static void drop(const ff_job *job, ff_buffer *parts) {
    for (int i = 0; i < job->size; i++) ff_buffer_free(&parts[i]);
    free(parts);
}

static bool same(const ff_buffer *a, const ff_buffer *b) {
    return a->length == b->length && (!a->length || memcmp(a->bytes, b->bytes, a->length) == 0);
}

/* Writes ": LINE, not LINE", with the first lines in which two texts differ. */
static void say_difference(char *text, size_t size, const ff_buffer *one, const ff_buffer *other) {
    size_t at = 0, begin = 0;
    for (; at < one->length && at < other->length && one->bytes[at] == other->bytes[at]; at++)
        if (one->bytes[at] == '\n') begin = at + 1;
    const char *line[] = {one->bytes + begin, other->bytes + begin};
    const size_t left[] = {one->length - begin, other->length - begin};
    int length[2];
    for (int i = 0; i < 2; i++) {
        const char *end = left[i] ? memchr(line[i], '\n', left[i]) : NULL;
        length[i] = (int)(end ? (size_t)(end - line[i]) : left[i]);
    }
    snprintf(text, size, ": %.*s, not %.*s", length[0], line[0], length[1], line[1]);
}

/* A rank that differs from rank 0 reports the difference itself, with its name. */
static ff_status agree(ff_job *job, const char *what, const void *bytes, size_t length, bool lines,
                       ff_error *error) {
    char which[400] = "", why[512];
    ff_buffer *parts;
    ff_status status = FF_OK;
    if (!job) return FF_OK;
    FF_TRY(gather(job, bytes, length, &parts, error));
    int other = job->rank;
    if (same(&parts[other], &parts[0]))
        for (other = 1; other < job->size && same(&parts[other], &parts[0]);) other++;
    if (lines && other < job->size) say_difference(which, sizeof which, &parts[other], &parts[0]);
    drop(job, parts);
    snprintf(why, sizeof why, "%s than rank 0%s", what, which);
    if (other == job->rank) {
        char own[sizeof why + 8];
        snprintf(own, sizeof own, "it has %s", why);
        ff_channel_report(job->channel, own);
        status = ff_channel_check(job->channel, error);
    } else if (other < job->size)
        status = ff_fail(error, FF_FAILED, "rank %d has %s", other, why);
    return status;
}

ff_status ff_job_agree(ff_job *job, const char *what, const void *bytes, size_t length,
                       ff_error *error) {
    return agree(job, what, bytes, length, false, error);
}

ff_status ff_job_agree_text(ff_job *job, const char *what, const ff_buffer *text, ff_error *error) {
    return agree(job, what, text->bytes, text->length, true, error);
}

ff_status ff_job_broadcast(ff_job *job, void *bytes, size_t length, ff_error *error) {
    ff_buffer *parts;
    ff_status status = FF_OK;
    if (!job) return FF_OK;
    FF_TRY(gather(job, bytes, job->rank ? 0 : length, &parts, error));
    if (parts[0].length == length)
        memcpy(bytes, parts[0].bytes, length);
    else
        status = ff_fail(error, FF_FAILED, "rank 0 has another version of fftrain");
    drop(job, parts);
    return status;
}

ff_status ff_job_choose(ff_job *job, int32_t *weight, ff_buffer *text, ff_error *error) {
    ff_buffer own = {0}, *parts = NULL;
    int32_t found = INT32_MIN, one;
    int which = 0;
    ff_status status;
    if (!job) return FF_OK;
    FF_TRY_DONE(ff_buffer_add(&own, weight, sizeof *weight, error));
    FF_TRY_DONE(ff_buffer_add(&own, text->bytes, text->length, error));
    FF_TRY_DONE(gather(job, own.bytes, own.length, &parts, error));
    for (int i = 0; i < job->size; i++) {
        memcpy(&one, parts[i].bytes, sizeof one);
        if (one > found) which = i;
        if (one > found) found = one;
    }
    *weight = found;
    text->length = 0;
    status = ff_buffer_add(text, parts[which].bytes + sizeof found,
                           parts[which].length - sizeof found, error);
    drop(job, parts);
done:
    ff_buffer_free(&own);
    return status;
}

ff_status ff_job_sum(ff_job *job, double *numbers, size_t count, ff_error *error) {
    ff_buffer *parts;
    ff_status status = FF_OK;
    if (!job) return FF_OK;
    FF_TRY(gather(job, numbers, count * sizeof *numbers, &parts, error));
    for (int i = 0; i < job->size && status == FF_OK; i++) {
        if (parts[i].length != count * sizeof *numbers)
            status = ff_fail(error, FF_FAILED, "rank %d has other sums than rank %d", i, job->rank);
        for (size_t k = 0; k < count && status == FF_OK; k++) {
            double one;
            memcpy(&one, (const char *)parts[i].bytes + k * sizeof one, sizeof one);
            numbers[k] = (i ? numbers[k] : 0) + one;
        }
    }
    drop(job, parts);
    return status;
}

/* ---- places of the ranks ---- */

ff_status ff_job_meet(ff_job *job, const ff_job_gpu *gpu, ff_error *error) {
    ff_job_place own = {.device = "cpu"};
    ff_buffer *parts;
    if (!job || !job->channel || job->places) return FF_OK;
    gethostname(own.host, sizeof own.host - 1);
    if (gpu) snprintf(own.bus, sizeof own.bus, "%s", gpu->bus);
    if (gpu) snprintf(own.device, sizeof own.device, "%s", gpu->text);
    FF_TRY(gather(job, &own, sizeof own, &parts, error));
    ff_status status =
        ff_alloc(&job->places, (uint64_t)job->size, sizeof own, "places of ranks", error);
    for (int i = 0; i < job->size && status == FF_OK; i++) {
        if (parts[i].length == sizeof own) memcpy(&job->places[i], parts[i].bytes, sizeof own);
    }
    drop(job, parts);
    return status;
}

bool ff_job_together(const ff_job *job, int a, int b, bool host) {
    const ff_job_place *x = &job->places[a], *y = &job->places[b];
    return strcmp(x->host, y->host) == 0 && (host || strcmp(x->bus, y->bus) == 0);
}

int ff_job_sharing(const ff_job *job, int rank, bool host) {
    int count = 0;
    if (!job || !job->places) return 1;
    for (int i = 0; i < job->size; i++) count += ff_job_together(job, i, rank, host);
    return count;
}

/* ---- the communicator ---- */

/* Sets the first communicator, then the one for norms. */
static void set_comm(ff_job *job, ff_comm *comm) {
    pthread_mutex_lock(&job->lock);
    *(job->comm ? &job->norms : &job->comm) = comm;
    pthread_mutex_unlock(&job->lock);
}

static ff_status gather_for(void *context, const void *bytes, size_t length, ff_buffer *parts,
                            ff_error *error) {
    ff_job *job = context;
    return ff_channel_gather(job->channel, bytes, length, parts, error);
}

/* Uses MPI under MPI's launchers, else shared memory and TCP. */
static ff_status connect_hosts(ff_job *job, ff_comm_memory memory, ff_error *error) {
    const char *family = job->size > 1 ? job->ranks->family : "";
    ff_comm *comm;
    if (strcmp(family, "Open MPI") == 0 || strcmp(family, "MPICH") == 0) {
        FF_TRY(ff_comm_mpi_create(&comm, job->rank, job->size, memory, error));
    } else {
        const ff_comm_processes_options how = {.rank = job->rank,
                                               .size = job->size,
                                               .gather = gather_for,
                                               .context = job,
                                               .timeout_ns = job->timeout_ns};
        FF_TRY(ff_comm_processes_create(&comm, &how, memory, error));
    }
    set_comm(job, comm);
    return FF_OK;
}

static ff_status check_for(void *context, ff_error *error) {
    ff_job *job = context;
    return ff_channel_check(job->channel, error);
}

/* Batch norms use the same communicator. If collectives of two communicators run at once, the GPUs
 * may run them in different orders, and each rank waits for another one (NCCL's user guide, "Using
 * multiple NCCL communicators concurrently"). */
static ff_status connect_gpus(ff_job *job, ff_device *device, const ff_job_gpu *gpu, bool norms,
                              ff_error *error) {
    const ff_nccl_options how = {.rank = job->rank,
                                 .size = job->size,
                                 .timeout_ns = job->timeout_ns,
                                 .gather = gather_for,
                                 .check = check_for,
                                 .context = job};
    ff_comm *comm;
    FF_TRY(gpu->create(&comm, device, &how, error));
    set_comm(job, comm);
    if (norms) set_comm(job, comm);
    return FF_OK;
}

/* Whether every rank has a GPU of its own. */
static bool have_own_gpus(const ff_job *job) {
    bool own = true;
    for (int i = 0; i < job->size; i++)
        own &= *job->places[i].bus && ff_job_sharing(job, i, false) == 1;
    return own;
}

ff_status ff_job_connect(ff_job *job, ff_device *device, const ff_job_gpu *gpu, bool norms,
                         ff_error *error) {
    if (!job || job->comm || !job->channel) return FF_OK;
    FF_TRY(ff_job_meet(job, gpu, error));
    if (have_own_gpus(job)) return connect_gpus(job, device, gpu, norms, error);
    if (job->size > FF_COMM_RANKS_MOST)
        return ff_fail(error, FF_USAGE, "%d ranks on CPUs or sharing GPUs; at most %d are possible",
                       job->size, FF_COMM_RANKS_MOST);
    /* The CPU computes in the caller; reductions run concurrently. */
    const bool unified = device->table->unified;
    if (unified) FF_TRY(ff_device_host_create(&job->streams, FF_HOST_STREAMS_THREADS, error));
    FF_TRY(connect_hosts(job, (ff_comm_memory){unified ? job->streams : device, !unified}, error));
    return norms ? connect_hosts(job, (ff_comm_memory){device, !unified}, error) : FF_OK;
}

ff_status ff_job_conclude(ff_job *job, ff_status status, ff_error *error) {
    if (!job || !job->channel || job->concluded) return status;
    status = ff_channel_conclude(job->channel, status, error);
    job->concluded = status != FF_OK;
    if (status != FF_OK && status != FF_PREEMPTED) ff_job_abort(job, error->message);
    return status;
}

void ff_job_disconnect(ff_job *job) {
    if (!job) return;
    ff_comm *const both[] = {job->norms, job->comm};
    for (int i = 0; i < 2; i++) /* outside the lock: an abort can end this wait */
        if (both[i] && both[i]->table->leave) both[i]->table->leave(both[i]);
    pthread_mutex_lock(&job->lock);
    if (job->norms != job->comm) ff_comm_destroy(&job->norms);
    job->norms = NULL;
    ff_comm_destroy(&job->comm);
    pthread_mutex_unlock(&job->lock);
    ff_device_destroy(&job->streams);
}

void ff_job_abort(ff_job *job, const char *why) {
    pthread_mutex_lock(&job->lock);
    if (job->comm) job->comm->table->abort(job->comm, why);
    if (job->norms) job->norms->table->abort(job->norms, why);
    pthread_mutex_unlock(&job->lock);
}

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
    /* Whatever ends one rank early ends all ranks. */
    status = ff_job_conclude(&job, work->run(work->context, &job, error), error);
done:
    ff_channel_close(&job.channel);
    free(job.places);
    free(cuts);
    return status;
}
