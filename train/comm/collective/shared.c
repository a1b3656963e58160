#include "train/comm/collective/shared.h"

#include "format/base/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The head of the memory; the parts follow: [2][size][FF_SHARED_BYTES]. */
typedef struct ff_shared_memory {
    ff_barrier barrier;
    uint64_t at[2][FF_COMM_RANKS_MOST][FF_COMM_RANKS_MOST]; /* [from][to]: in the sender's part */
} ff_shared_memory;

/* The bytes before the parts: a whole number of pages. */
static size_t head_bytes(void) {
    return (size_t)ff_align_u64(sizeof(ff_shared_memory), 4096);
}

ff_status ff_shared_create(ff_shared *shared, int rank, int size, ff_error *error) {
    *shared = (ff_shared){.file = -1, .rank = rank, .size = size};
    shared->bytes = head_bytes() + 2 * (size_t)size * FF_SHARED_BYTES;
    shared->file = memfd_create("ffpack ranks", MFD_CLOEXEC);
    if (shared->file < 0) return ff_fail_errno(error, "shared memory: memfd_create failed");
    if (ftruncate(shared->file, (off_t)shared->bytes) != 0)
        return ff_fail_errno(error, "shared memory of %zu bytes", shared->bytes);
    return FF_OK;
}

/* A rank locks the byte of its number; the system releases the lock when the process ends. */
static int lock(const ff_shared *shared, int command, int rank, struct flock *byte) {
    *byte = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
    return fcntl(shared->file, command, byte);
}

ff_status ff_shared_open(ff_shared *shared, const bool *member, int pid, int file,
                         ff_error *error) {
    unsigned count = 0;
    memcpy(shared->member, member, sizeof shared->member);
    for (int r = 0; r < shared->size; r++) count += member[r];
    if (pid) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, file);
        close(shared->file);
        shared->file = open(path, O_RDWR | O_CLOEXEC);
        if (shared->file < 0) return ff_fail_errno(error, "shared memory: cannot open %s", path);
    }
    void *memory = mmap(NULL, shared->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared->file, 0);
    if (memory == MAP_FAILED)
        return ff_fail_errno(error, "shared memory: cannot map %zu bytes", shared->bytes);
    shared->memory = memory;
    if (!pid) ff_barrier_init(&shared->memory->barrier, (int)count);
    struct flock byte;
    if (lock(shared, F_SETLK, shared->rank, &byte) != 0)
        return ff_fail_errno(error, "shared memory: cannot lock byte %d", shared->rank);
    return FF_OK;
}

ff_barrier *ff_shared_barrier(ff_shared *shared) {
    return &shared->memory->barrier;
}

static ff_status lost(void *context, ff_error *error) {
    const ff_shared *shared = context;
    struct flock byte;
    for (int r = 0; r < shared->size; r++) {
        if (!shared->member[r] || r == shared->rank || lock(shared, F_GETLK, r, &byte) != 0 ||
            byte.l_type != F_UNLCK)
            continue;
        ff_barrier_name(&shared->memory->barrier, r);
        return ff_fail(error, FF_FAILED, "rank %d is lost: its process has ended", r);
    }
    return FF_OK;
}

static char *part_of(const ff_shared *shared, unsigned half, int rank) {
    size_t parts = half * (size_t)shared->size + (size_t)rank;
    return (char *)shared->memory + head_bytes() + parts * FF_SHARED_BYTES;
}

ff_status ff_shared_exchange(ff_shared *shared, ff_message *messages, ff_error *error) {
    const int size = shared->size, rank = shared->rank;
    const unsigned half = shared->turn++ % 2;
    ff_shared_memory *memory = shared->memory;
    char *own = part_of(shared, half, rank);
    const void *last = NULL;
    size_t begin = 0, end = 0;
    for (int r = 0; r < size; r++) {
        const ff_message *message = &messages[r];
        if (r == rank || !shared->member[r] || message->send_bytes == 0) continue;
        if (message->send != last) {
            begin = end;
            memcpy(own + begin, message->send, message->send_bytes);
            end = (size_t)ff_align_u64(begin + message->send_bytes, 64);
            last = message->send;
        }
        memory->at[half][rank][r] = begin;
    }
    FF_TRY(ff_barrier_wait(&memory->barrier, lost, shared, error));
    for (int r = 0; r < size; r++) {
        ff_message *message = &messages[r];
        if (r == rank || !shared->member[r] || message->receive_bytes == 0) continue;
        message->received = part_of(shared, half, r) + memory->at[half][r][rank];
        if (!message->receive) continue;
        memcpy(message->receive, message->received, message->receive_bytes);
        message->received = message->receive;
    }
    return FF_OK;
}

void ff_shared_close(ff_shared *shared) {
    if (shared->memory) munmap(shared->memory, shared->bytes);
    if (shared->file >= 0) close(shared->file);
    shared->memory = NULL;
    shared->file = -1;
}
