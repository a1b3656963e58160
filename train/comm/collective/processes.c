#include "train/comm/collective/processes.h"

#include "format/base/thread.h"
#include "train/comm/collective/network.h"
#include "train/comm/collective/shared.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct process_comm {
    ff_host_comm host;
    ff_shared shared;
    ff_network network;
    char *inbox; /* receives messages over the network */
    uint64_t delay_ns;
} process_comm;

/* The first message that the ranks send each other. */
typedef struct introduction {
    char machine[128]; /* equal if memory can be shared */
    int pid, file;
    bool staged;
} introduction;

/* ---- exchange ------------------------------------------------------------------------------- */

/* Waits in slices, so that a failure is noticed. */
static ff_status wait_ns(const process_comm *comm, uint64_t ns, ff_error *error) {
    const uint64_t end = ff_now_ns() + ns;
    for (uint64_t now; (now = ff_now_ns()) < end;) {
        long slice = end - now < 50000000 ? (long)(end - now) : 50000000;
        nanosleep(&(struct timespec){.tv_nsec = slice}, NULL);
        FF_TRY(ff_barrier_check(comm->host.barrier, error));
    }
    return FF_OK;
}

static ff_status process_exchange(ff_host_comm *host, ff_message *messages, ff_error *error) {
    process_comm *comm = (process_comm *)host;
    FF_TRY(ff_shared_exchange(&comm->shared, messages, error));
    FF_TRY(ff_network_exchange(&comm->network, messages, comm->inbox, error));
    return comm->delay_ns ? wait_ns(comm, comm->delay_ns, error) : FF_OK;
}

static void process_abort(ff_host_comm *host) {
    ff_network_abort(&((process_comm *)host)->network);
}

static void process_destroy(ff_host_comm *host) {
    process_comm *comm = (process_comm *)host;
    ff_host_comm_release(host);
    ff_network_close(&comm->network);
    ff_shared_close(&comm->shared);
    free(comm->inbox);
    free(comm);
}

static const ff_comm_table table = FF_HOST_COMM_TABLE("processes");
static const ff_transport transport = {
    .exchange = process_exchange,
    .abort = process_abort,
    .destroy = process_destroy,
};

/* ---- rendezvous ----------------------------------------------------------------------------- */

/* Names the boot, the namespace of processes and the user: processes with the same name can open
 * each other's files. */
static ff_status machine_of(char *text, size_t length, ff_error *error) {
    char boot[64] = "", numbering[48] = "";
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file < 0) return ff_fail_errno(error, "cannot open /proc/sys/kernel/random/boot_id");
    ssize_t n = read(file, boot, sizeof boot - 1);
    close(file);
    if (n <= 0) return ff_fail_errno(error, "cannot read /proc/sys/kernel/random/boot_id");
    if (readlink("/proc/self/ns/pid", numbering, sizeof numbering - 1) < 0) numbering[0] = 0;
    snprintf(text, length, "%.36s %s %ld", boot, numbering, (long)geteuid());
    return FF_OK;
}

/* Gathers all[size] items of `length` bytes. */
static ff_status gather(const ff_comm_processes_options *options, const void *own, size_t length,
                        void *all, ff_error *error) {
    ff_buffer parts[FF_COMM_RANKS_MOST] = {{0}};
    ff_status status = options->gather(options->context, own, length, parts, error);
    for (int r = 0; r < options->size; r++) {
        if (status == FF_OK && parts[r].length != length)
            status = ff_fail(error, FF_FAILED,
                             "rank %d introduces itself with %zu bytes, not %zu: another version",
                             r, parts[r].length, length);
        if (status == FF_OK) memcpy((char *)all + (size_t)r * length, parts[r].bytes, length);
        ff_buffer_free(&parts[r]);
    }
    return status;
}

/* Opens the memory shared by the ranks of this machine, if all of them can open it. */
static ff_status open_shared(process_comm *comm, const ff_comm_processes_options *options,
                             const introduction *all, bool *member, ff_error *error) {
    const int size = options->size, rank = options->rank;
    bool opened[FF_COMM_RANKS_MOST], can;
    int first = rank;
    for (int r = size - 1; r >= 0; r--) {
        member[r] = r == rank || (!options->network && !strcmp(all[r].machine, all[rank].machine));
        if (r < first && member[r]) first = r;
    }
    can = ff_shared_open(&comm->shared, member, first == rank ? 0 : all[first].pid, all[first].file,
                         error) == FF_OK;
    FF_TRY(gather(options, &can, sizeof can, opened, error));
    for (int r = 0; r < size; r++) can = can && (!member[r] || opened[r]);
    if (can) return FF_OK;
    for (int r = 0; r < size; r++) member[r] = r == rank;
    ff_shared_close(&comm->shared);
    FF_TRY(ff_shared_create(&comm->shared, rank, size, error));
    return ff_shared_open(&comm->shared, member, 0, 0, error);
}

static ff_status meet(process_comm *comm, const ff_comm_processes_options *options, bool *pieces,
                      ff_error *error) {
    const int size = options->size, rank = options->rank;
    introduction own = {.pid = getpid(), .staged = comm->host.memory.staged}, *all = NULL;
    bool member[FF_COMM_RANKS_MOST] = {false}, peer[FF_COMM_RANKS_MOST], all_share = true;
    FF_TRY(machine_of(own.machine, sizeof own.machine, error));
    FF_TRY(ff_shared_create(&comm->shared, rank, size, error));
    own.file = comm->shared.file;
    FF_TRY(ff_alloc(&all, (uint64_t)size * (sizeof *all + sizeof(ff_network_place)), 1,
                    "the ranks' addresses", error));
    ff_network_place own_place, *places = (ff_network_place *)(all + size);
    ff_status status = gather(options, &own, sizeof own, all, error);
    if (status != FF_OK) goto done;
    for (int r = 0; r < size; r++) *pieces = *pieces || all[r].staged;
    FF_TRY_DONE(open_shared(comm, options, all, member, error));
    for (int r = 0; r < size; r++) {
        peer[r] = !member[r];
        all_share = all_share && member[r];
    }
    if (all_share) goto done; /* at every rank */
    FF_TRY_DONE(ff_network_listen(&comm->network, rank, size, &own_place, error));
    FF_TRY_DONE(gather(options, &own_place, sizeof own_place, places, error));
    status = ff_network_connect(&comm->network, places, peer, options->timeout_ns, error);
done:
    free(all);
    return status;
}

ff_status ff_comm_processes_create(ff_comm **out, const ff_comm_processes_options *options,
                                   ff_comm_memory memory, ff_error *error) {
    process_comm *comm;
    bool pieces = false;
    assert(options->size >= 1 && options->size <= FF_COMM_RANKS_MOST);
    *out = NULL;
    FF_TRY(ff_alloc(&comm, 1, sizeof *comm, "a communicator", error));
    comm->shared.file = comm->network.listener = -1;
    for (int r = 0; r < FF_COMM_RANKS_MOST; r++)
        comm->network.sockets[r] = comm->network.notices[r] = -1;
    comm->host.memory = memory;
    comm->host.transport = &transport;
    comm->host.most_bytes = FF_SHARED_BYTES;
    comm->delay_ns = options->delay_ns;
    ff_status status = FF_OK;
    FF_TRY_DONE(meet(comm, options, &pieces, error));
    comm->host.barrier = comm->network.barrier = ff_shared_barrier(&comm->shared);
    FF_TRY_DONE(ff_alloc_aligned(&comm->inbox, FF_SHARED_BYTES + FF_COMM_RANKS_MOST * 64, 1, 0,
                                 "messages of other machines", error));
    FF_TRY_DONE(ff_host_comm_init(&comm->host, &table, options->rank, options->size, memory, pieces,
                                  error));
    *out = &comm->host.base;
done:
    if (status != FF_OK) process_destroy(&comm->host);
    return status;
}
