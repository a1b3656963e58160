/* comm_speed processes|network|mpi RANKS BYTES: the time of an all_reduce of f32 values,
 * and its bytes a second compared with memcpy's (one thread). Prints a line. With mpi this is one
 * rank, under mpirun -n RANKS. */
#include "format/base/memory.h"
#include "format/base/thread.h"
#include "loader/device/host.h"
#include "train/comm/collective/mpi.h"
#include "train/comm/collective/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 64, BLOB = 1024 };

typedef struct board {
    ff_barrier barrier;
    size_t length;
    char blobs[RANKS][BLOB];
} board;

typedef struct job {
    board *board;
    ff_device *device;
    int rank, size;
    size_t bytes;
} job;

static ff_status gather(void *context, const void *bytes, size_t length, ff_buffer *parts,
                        ff_error *error) {
    job *j = context;
    board *b = j->board;
    if (length > BLOB) return ff_fail(error, FF_FAILED, "%zu bytes", length);
    memcpy(b->blobs[j->rank], bytes, length);
    FF_TRY(ff_barrier_wait(&b->barrier, NULL, NULL, error));
    for (int r = 0; r < j->size; r++) FF_TRY(ff_buffer_add(&parts[r], b->blobs[r], length, error));
    return ff_barrier_wait(&b->barrier, NULL, NULL, error);
}

static void must(ff_status status, const ff_error *error) {
    if (status == FF_OK) return;
    fprintf(stderr, "comm_speed: %s\n", error->message);
    _exit(1);
}

/* The best of some runs. */
static void measure(ff_comm *comm, ff_device *device, size_t bytes) {
    ff_error error;
    ff_stream *stream;
    float *values, *other;
    const int calls = bytes < 1u << 20 ? 1000 : 5;
    uint64_t best = UINT64_MAX, best_copy = UINT64_MAX;
    must(ff_alloc(&values, bytes, 1, "values", &error), &error);
    must(ff_alloc(&other, bytes, 1, "values", &error), &error);
    memset(other, 1, bytes);
    must(device->table->stream_create(device, &stream, &error), &error);
    for (int run = 0; run < 7; run++) {
        uint64_t begun = ff_now_ns();
        for (int i = 0; i < calls; i++)
            must(comm->table->all_reduce(comm, stream, values, bytes / sizeof *values, FF_F32,
                                         &error),
                 &error);
        uint64_t took = (ff_now_ns() - begun) / (uint64_t)calls;
        if (took < best) best = took;
    }
    must(comm->table->check(comm, &error), &error);
    for (int run = 0; run < 7 && comm->rank == 0; run++) {
        uint64_t begun = ff_now_ns();
        memcpy(values, other, bytes);
        if (ff_now_ns() - begun < best_copy) best_copy = ff_now_ns() - begun;
    }
    if (comm->rank == 0)
        printf("%s %d ranks, %zu bytes: %.2f us, %.2f GB/s; memcpy %.2f GB/s\n", comm->table->name,
               comm->size, bytes, (double)best / 1e3, (double)bytes / (double)best,
               (double)bytes / (double)best_copy);
    device->table->stream_destroy(device, stream);
    free(values);
    free(other);
}

static int processes(job *j, bool network) {
    ff_error error;
    ff_comm *comm;
    int failed = 0, ended;
    void *memory =
        mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    j->board = memory;
    ff_barrier_init(&j->board->barrier, j->size);
    for (j->rank = 0; j->rank < j->size; j->rank++) {
        if (fork() != 0) continue;
        const ff_comm_processes_options options = {.rank = j->rank,
                                                   .size = j->size,
                                                   .gather = gather,
                                                   .context = j,
                                                   .timeout_ns = 10000000000u,
                                                   .network = network};
        must(ff_comm_processes_create(&comm, &options, (ff_comm_memory){.device = j->device},
                                      &error),
             &error);
        measure(comm, j->device, j->bytes);
        ff_comm_destroy(&comm);
        fflush(stdout);
        _exit(0);
    }
    while (wait(&ended) > 0) failed |= ended;
    return failed != 0;
}

static void mpi(job *j) {
    ff_error error;
    ff_comm *comm;
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    must(ff_comm_mpi_create(&comm, rank ? atoi(rank) : 0, j->size,
                            (ff_comm_memory){.device = j->device}, &error),
         &error);
    measure(comm, j->device, j->bytes);
    ff_comm_destroy(&comm);
}

int main(int count, char **arguments) {
    ff_error error;
    job j = {.size = count == 4 ? atoi(arguments[2]) : 0};
    if (j.size < 1 || j.size > RANKS) {
        fprintf(stderr, "usage: comm_speed processes|network|mpi RANKS BYTES\n");
        return 2;
    }
    j.bytes = strtoull(arguments[3], NULL, 10) / 4 * 4;
    must(ff_device_host_create(&j.device, FF_HOST_STREAMS_CALLER, &error), &error);
    int failed = 0;
    if (strcmp(arguments[1], "mpi") == 0)
        mpi(&j);
    else
        failed = processes(&j, strcmp(arguments[1], "network") == 0);
    ff_device_destroy(&j.device);
    return failed;
}
