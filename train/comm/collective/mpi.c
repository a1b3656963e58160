#include "train/comm/collective/mpi.h"

#include "format/base/memory.h"
#include "format/base/path.h"
#include "train/comm/collective/mpi_table.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { MOST_BYTES = 8 << 20 };

typedef struct mpi_comm {
    ff_host_comm host;
    const ff_mpi_table *mpi; /* NULL = not started */
    ff_barrier barrier;      /* of this rank only: holds its failure */
    int number;              /* tags its exchanges */
    char *inbox;
} mpi_comm;

static ff_status mpi_exchange(ff_host_comm *host, ff_message *messages, ff_error *error) {
    mpi_comm *comm = (mpi_comm *)host;
    char *inbox = comm->inbox;
    for (int r = 0; r < host->base.size; r++) {
        ff_message *message = &messages[r];
        if (r == host->base.rank) continue;
        message->received = message->receive ? message->receive : inbox;
        if (!message->receive) inbox += ff_align_u64(message->receive_bytes, 64);
    }
    return comm->mpi->exchange(messages, comm->number, host->barrier, error);
}

static void mpi_abort(ff_host_comm *host) {
    mpi_comm *comm = (mpi_comm *)host;
    comm->mpi->abort(host->barrier);
}

static void mpi_destroy(ff_host_comm *host) {
    mpi_comm *comm = (mpi_comm *)host;
    ff_host_comm_release(host);
    if (comm->mpi && ff_barrier_check(&comm->barrier, NULL) == FF_OK) comm->mpi->finish();
    free(comm->inbox);
    free(comm);
}

static const ff_comm_table table = FF_HOST_COMM_TABLE("mpi");
static const ff_transport transport = {
    .exchange = mpi_exchange,
    .abort = mpi_abort,
    .destroy = mpi_destroy,
};

/* Global, because an MPI library's own modules look for its symbols. */
static ff_status open_module(const ff_mpi_table **mpi, ff_error *error) {
    char *path;
    FF_TRY(ff_path_of_module(&path, NULL, "libff_mpi.so", error));
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    free(path);
    if (!handle) return ff_fail(error, FF_FAILED, "the MPI module does not open: %s", dlerror());
    ff_mpi_export *get;
    *(void **)&get = dlsym(handle, FF_MPI_EXPORT);
    const ff_mpi_table *found = get ? get() : NULL;
    if (!found || found->headers != FF_HEADERS)
        return ff_fail(
            error, FF_FAILED,
            "libff_mpi.so is of another build; run make, which builds program and module");
    *mpi = found;
    return FF_OK;
}

/* Sends a message to all ranks to find out whether any rank is staged. */
static ff_status agree(mpi_comm *comm, bool *pieces, ff_error *error) {
    ff_message messages[FF_COMM_RANKS_MOST];
    bool staged[FF_COMM_RANKS_MOST];
    for (int r = 0; r < comm->host.base.size; r++)
        messages[r] = (ff_message){pieces, &staged[r], sizeof *pieces, sizeof *pieces, NULL};
    staged[comm->host.base.rank] = *pieces;
    FF_TRY(mpi_exchange(&comm->host, messages, error));
    for (int r = 0; r < comm->host.base.size; r++) *pieces = *pieces || staged[r];
    return FF_OK;
}

ff_status ff_comm_mpi_create(ff_comm **out, int rank, int size, ff_comm_memory memory,
                             ff_error *error) {
    mpi_comm *comm;
    const ff_mpi_table *mpi = NULL;
    bool pieces = memory.staged;
    int found_rank, found_size;
    *out = NULL;
    FF_TRY(open_module(&mpi, error));
    FF_TRY(ff_alloc(&comm, 1, sizeof *comm, "a communicator", error));
    ff_barrier_init(&comm->barrier, 1);
    comm->host.transport = &transport;
    comm->host.barrier = &comm->barrier;
    comm->host.most_bytes = MOST_BYTES;
    comm->host.memory = memory;
    ff_status status = FF_OK;
    FF_TRY_DONE(mpi->start(&found_rank, &found_size, &comm->number, error));
    comm->mpi = mpi;
    if (found_rank != rank || found_size != size || size > FF_COMM_RANKS_MOST) {
        status = ff_fail(error, FF_FAILED,
                         "MPI has rank %d of %d, the launcher's variables have rank %d of %d: the "
                         "launcher belongs to another MPI than libff_mpi.so, or has over %d ranks",
                         found_rank, found_size, rank, size, FF_COMM_RANKS_MOST);
        goto done;
    }
    comm->host.base = (ff_comm){.rank = rank, .size = size};
    FF_TRY_DONE(ff_alloc_aligned(&comm->inbox, MOST_BYTES + FF_COMM_RANKS_MOST * 64, 1, 0,
                                 "messages of other ranks", error));
    FF_TRY_DONE(agree(comm, &pieces, error));
    FF_TRY_DONE(ff_host_comm_init(&comm->host, &table, rank, size, memory, pieces, error));
    *out = &comm->host.base;
done:
    if (status != FF_OK) mpi_destroy(&comm->host);
    return status;
}
