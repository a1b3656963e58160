/* comm_mpi check|staged|abort|kill|single: a rank of a job that mpirun has started. Each rank
 * prints its communicator's final state, and exits with 1 if that is not the expected one. check,
 * staged: every collective against its definition; abort: rank 1 ends a job that waits; kill: it is
 * killed; single: MPI's ranks are not those that the program expects. */
#include "format/base/thread.h"
#include "tests/cuda/sim/device.h"
#include "tests/unit/comm_case.h"
#include "train/comm/collective/mpi.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static uint64_t aborted_ns;

static void *abort_soon(void *context) {
    ff_comm *comm = context;
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    aborted_ns = ff_now_ns();
    comm->table->abort(comm, "rank 1 had enough");
    return NULL;
}

static ff_status reduce_forever(ff_comm *comm, ff_device *device, ff_error *error) {
    enum { N = 100000 };
    ff_stream *stream;
    ff_status status;
    float *values;
    FF_TRY(ff_alloc(&values, N, sizeof *values, "values", error));
    FF_TRY(device->table->stream_create(device, &stream, error));
    do {
        FF_TRY(comm->table->all_reduce(comm, stream, values, N, FF_F32, error));
        FF_TRY(device->table->stream_synchronize(device, stream, error));
        status = comm->table->check(comm, error);
    } while (status == FF_OK);
    device->table->stream_destroy(device, stream);
    free(values);
    return status;
}

/* Waits until all ranks have printed their state, because mpirun ends them when one ends. Each rank
 * then adds a byte to the file FF_TOLD. */
static void await_others(int ranks) {
    struct stat info = {0};
    const int told = open(getenv("FF_TOLD"), O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (told < 0 || write(told, ".", 1) != 1) return;
    while (fstat(told, &info) == 0 && info.st_size < ranks) usleep(10000);
    close(told);
}

static int variable(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

int main(int count, char **arguments) {
    const char *mode = count == 2 ? arguments[1] : "check";
    ff_error error = {0};
    ff_device *device = NULL;
    ff_comm *comm = NULL;
    pthread_t other;
    const bool staged = strcmp(mode, "staged") == 0, single = strcmp(mode, "single") == 0;
    const int rank = variable("OMPI_COMM_WORLD_RANK", 0);
    const int ranks = variable("OMPI_COMM_WORLD_SIZE", 1), size = ranks + single;
    ff_status status =
        ff_device_sim_create(&device, FF_HOST_STREAMS_THREADS, 100000, (uint64_t)rank + 1, &error);
    if (status == FF_OK)
        status = ff_comm_mpi_create(&comm, rank, size, (ff_comm_memory){device, staged}, &error);
    if (status == FF_OK && strcmp(mode, "abort") == 0) {
        if (rank == 1) pthread_create(&other, NULL, abort_soon, comm);
        status = reduce_forever(comm, device, &error);
        if (rank == 1) {
            pthread_join(other, NULL);
            if (ff_now_ns() - aborted_ns > 1000000000) printf("too late\n");
        }
    } else if (status == FF_OK && strcmp(mode, "kill") == 0) {
        if (rank == 1) raise(SIGKILL);
        status = reduce_forever(comm, device, &error);
    } else if (status == FF_OK) {
        status = comm_check_all(comm, device, true, &error);
    }
    printf("rank %d of %d: %s\n", rank, size, status == FF_OK ? "well" : error.message);
    fflush(stdout);
    if (status != FF_OK) await_others(ranks);
    ff_comm_destroy(&comm);
    ff_device_destroy(&device);
    return status != FF_OK;
}
