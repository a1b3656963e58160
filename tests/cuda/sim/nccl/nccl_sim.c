/* A stand-in for NCCL, build/tests/libnccl.so.2: its functions that the trainer uses, and groups,
 * over the streams of the asynchronous host device; between the threads of a process and between
 * processes, through shared memory. Where NCCL's versions differ it does what is hardest for the
 * caller: a call of a communicator that does not block is always made later by another thread, a
 * lost rank is not noticed, and abort waits until no recording has a collective.
 *
 * What it refuses: another call while one is in progress; a call after the end (it ends the
 * process); wrong types and roots; ranks whose n-th collectives differ, and two collectives of a
 * rank that run at once (an asynchronous error).
 *
 * Environment: FF_NCCL_SIM_DELAY_NS: one call and one collective in four wait up to that long;
 * FF_NCCL_SIM_FAIL=K or K:RANK: the K-th collective (from 0) of all or of one rank fails;
 * FF_NCCL_SIM_NO_SHM: /dev/shm is full; FF_NCCL_SIM_VERSION: as ncclGetVersion counts. */
#include "format/base/thread.h"
#include "format/disk/dtype.h"
#include "tests/cuda/sim/device.h"
#include "train/comm/collective/nccl_library.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define DECLARE(member, symbol, result, parameters)                                                \
    __attribute__((visibility("default"))) result symbol parameters;
FF_NCCL_FUNCTIONS(DECLARE)
#undef DECLARE
__attribute__((visibility("default"))) int ncclGroupStart(void);
__attribute__((visibility("default"))) int ncclGroupEnd(void);
/* A function of the strict stand-in for CUDA's runtime; NULL in programs without it. Makes a device
 * current, -1 none, and returns the one before. */
__attribute__((weak)) int strict_exchange_device(int device);

enum { RANKS = 16, PIECE = 1 << 16, VERSION = 22809 };
enum { SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6 };

typedef enum kind { ALL_REDUCE, BROADCAST, ALL_GATHER } kind;

/* What the ranks must agree on. */
typedef struct call {
    kind kind;
    int type, root;
    uint64_t count, number;
} call;

/* A rank's part of the shared memory: written by it, read by all between two barriers. */
typedef struct post {
    _Atomic uint64_t arrived; /* barriers */
    call call;
    char data[PIECE];
} post;

/* The shared memory of a job, mapped once a process: /proc/PID/fd/N of the process of rank 0, so
 * that nothing is left behind. */
typedef struct job {
    struct job *next;
    char name[sizeof(ff_ncclUniqueId)];
    int users;
    post *posts;
} job;

typedef struct work {
    struct work *next;
    ff_ncclComm_t comm;
    call call;
    const char *from;
    char *to;
    void *stream;
} work;

/* Never freed, so that a call after the end is noticed. */
struct ff_nccl_job {
    ff_ncclComm_t next;
    job *job;
    int rank, size;
    int device; /* current when the communicator was made, as NCCL has it */
    bool blocks, helped;
    pthread_t helper; /* makes the call in progress */
    void (*help)(ff_ncclComm_t comm);
    work *given;
    _Atomic int state; /* as ncclCommGetAsyncError tells */
    atomic_bool aborted, ended, said;
    /* Barriers, collectives, those that may still run; of the delays. */
    _Atomic uint64_t phase, number, held, random;
    char last_error[256];
    long fails, fails_at; /* FF_NCCL_SIM_FAIL; -1 = none, all ranks */
    uint64_t delay_ns;
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static job *jobs;
static ff_ncclComm_t comms;
static atomic_int running[RANKS]; /* collectives of each rank, of all communicators */
static _Thread_local int depth;
static _Thread_local work *grouped, **grouped_end;

static void nap(uint64_t ns) {
    nanosleep(&(struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)}, NULL);
}

static void maybe_delay(ff_ncclComm_t comm) {
    if (comm->delay_ns == 0) return;
    uint64_t random = atomic_fetch_add(&comm->random, UINT64_C(0x9e3779b97f4a7c15));
    random = (random ^ random >> 31) * UINT64_C(0xbf58476d1ce4e5b9) >> 33;
    if (random % 4 == 0) nap((random / 4) % comm->delay_ns);
}

/* The first error; the text is read after the state. */
static int fail(ff_ncclComm_t comm, int result, const char *text) {
    if (!atomic_exchange(&comm->said, true))
        snprintf(comm->last_error, sizeof comm->last_error, "%s", text);
    atomic_store(&comm->state, result);
    return result;
}

/* False where this rank aborted. */
static bool barrier(ff_ncclComm_t comm) {
    const uint64_t phase = ++comm->phase;
    atomic_store(&comm->job->posts[comm->rank].arrived, phase);
    for (int i = 0; i < comm->size; i++)
        for (int spins = 0; atomic_load(&comm->job->posts[i].arrived) < phase; spins++) {
            if (comm->aborted) return false;
            if (spins > 20) nap(20000);
        }
    return !comm->aborted;
}

/* ---- collectives, in the stream's thread ---- */

static size_t bytes_of(int type) {
    return type == FF_ncclUint8 ? 1 : type == FF_ncclFloat32 ? 4 : 2;
}

static float load(const char *at, int type) {
    float value;
    uint16_t narrow;
    if (type == FF_ncclFloat32) return memcpy(&value, at, 4), value;
    memcpy(&narrow, at, 2);
    return type == FF_ncclFloat16 ? ff_f32_from_f16(narrow) : ff_f32_from_bf16(narrow);
}

static void store(char *at, int type, float value) {
    if (type == FF_ncclFloat32) {
        memcpy(at, &value, 4);
        return;
    }
    const uint16_t narrow =
        type == FF_ncclFloat16 ? ff_f16_from_f32(value) : ff_bf16_from_f32(value);
    memcpy(at, &narrow, 2);
}

/* As around a ring: another first rank for each value, rounded after each addition. */
static void sum(ff_ncclComm_t comm, const work *w, char *to, size_t bytes) {
    const size_t each = bytes_of(w->call.type);
    const post *posts = comm->job->posts;
    for (size_t i = 0; i < bytes / each; i++) {
        memcpy(to + i * each, posts[i % (size_t)comm->size].data + i * each, each);
        for (int k = 1; k < comm->size; k++) {
            const char *other = posts[(i + (size_t)k) % (size_t)comm->size].data + i * each;
            store(to + i * each, w->call.type,
                  load(to + i * each, w->call.type) + load(other, w->call.type));
        }
    }
}

static bool agree(ff_ncclComm_t comm) {
    char text[160];
    const call *own = &comm->job->posts[comm->rank].call;
    for (int i = 0; i < comm->size; i++) {
        const call *other = &comm->job->posts[i].call;
        if (other->kind == own->kind && other->type == own->type && other->root == own->root &&
            other->count == own->count && other->number == own->number)
            continue;
        snprintf(text, sizeof text, "collective %llu of rank %d is not that of rank %d",
                 (unsigned long long)own->number, comm->rank, i);
        fail(comm, INVALID_USAGE, text);
        return false;
    }
    return true;
}

/* One piece of all ranks; false where this rank aborted. */
static bool exchange(ff_ncclComm_t comm, const work *w, uint64_t at, size_t bytes, bool first) {
    post *own = &comm->job->posts[comm->rank];
    const uint64_t total = w->call.count * bytes_of(w->call.type);
    if (w->call.kind != BROADCAST || w->call.root == comm->rank)
        memcpy(own->data, w->from + at, bytes);
    if (!barrier(comm) || (first && !agree(comm))) return false;
    switch (w->call.kind) {
    case ALL_REDUCE: sum(comm, w, w->to + at, bytes); break;
    case BROADCAST: memcpy(w->to + at, comm->job->posts[w->call.root].data, bytes); break;
    case ALL_GATHER:
        for (int i = 0; i < comm->size; i++)
            memcpy(w->to + (uint64_t)i * total + at, comm->job->posts[i].data, bytes);
        break;
    }
    return barrier(comm);
}

/* The collective with all ranks; false after a failure. */
static bool perform(ff_ncclComm_t comm, const work *w) {
    const uint64_t total = w->call.count * bytes_of(w->call.type);
    bool good = true;
    call *own = &comm->job->posts[comm->rank].call;
    *own = w->call;
    own->number = comm->number++;
    if ((long)own->number == comm->fails &&
        (comm->fails_at < 0 || comm->fails_at == (long)comm->rank)) {
        fail(comm, REMOTE_ERROR, "a planted failure");
        good = false;
    }
    for (uint64_t at = 0; good && at < total; at += PIECE)
        good = exchange(comm, w, at, total - at < PIECE ? (size_t)(total - at) : PIECE, at == 0);
    return good;
}

/* A collective that failed hangs, as a kernel does, until this rank aborts. So may two of a rank
 * that run at once: each may wait for a rank whose GPU is busy with the other one. */
static void run(void *context) {
    const work *w = context;
    ff_ncclComm_t comm = w->comm;
    maybe_delay(comm);
    if (comm->aborted) return;
    bool good = atomic_fetch_add(&running[comm->rank], 1) == 0;
    if (!good) fail(comm, INVALID_USAGE, "two collectives of a rank run at once");
    good = good && perform(comm, w);
    atomic_fetch_sub(&running[comm->rank], 1);
    while (!good && !comm->aborted) nap(100000);
}

static void release(void *context) {
    work *w = context;
    w->comm->held--;
    free(w);
}

static int enqueue(work *w) {
    ff_ncclComm_t comm = w->comm;
    maybe_delay(comm);
    comm->held++;
    const int before = strict_exchange_device ? strict_exchange_device(comm->device) : 0;
    const int code = ff_device_sim_enqueue(w->stream, run, w, release);
    if (strict_exchange_device) (void)strict_exchange_device(before);
    if (code == 0) return FF_ncclSuccess;
    release(w);
    return SYSTEM_ERROR;
}

/* ---- calls ---- */

static void *body(void *context) {
    ff_ncclComm_t comm = context;
    comm->help(comm);
    return NULL;
}

static void join_helper(ff_ncclComm_t comm) {
    if (comm->helped) pthread_join(comm->helper, NULL);
    comm->helped = false;
}

static void must_live(ff_ncclComm_t comm, const char *what) {
    if (!comm->ended && !comm->aborted) return;
    fprintf(stderr, "NCCL's stand-in: %s after the communicator's end\n", what);
    abort();
}

/* Makes a call: here, or in a thread. */
static int start(ff_ncclComm_t comm, void (*help)(ff_ncclComm_t comm)) {
    int expected = FF_ncclSuccess;
    if (!atomic_compare_exchange_strong(&comm->state, &expected, FF_ncclInProgress))
        return expected == FF_ncclInProgress ? INVALID_ARGUMENT : expected;
    join_helper(comm);
    comm->help = help;
    if (comm->blocks) {
        help(comm);
        return comm->state;
    }
    comm->helped = pthread_create(&comm->helper, NULL, body, comm) == 0;
    return comm->helped ? FF_ncclInProgress : fail(comm, SYSTEM_ERROR, "no thread");
}

static void done(ff_ncclComm_t comm, int result) {
    int expected = FF_ncclInProgress; /* a collective may have failed meanwhile */
    atomic_compare_exchange_strong(&comm->state, &expected, result);
}

static void help_init(ff_ncclComm_t comm) {
    maybe_delay(comm);
    if (!barrier(comm)) return;
    if (getenv("FF_NCCL_SIM_NO_SHM"))
        fail(comm, SYSTEM_ERROR,
             "Error while creating shared memory segment /dev/shm/nccl-YnQGeG (size 33030528), "
             "error: No space left on device (28)");
    else
        done(comm, FF_ncclSuccess);
}

static void help_enqueue(ff_ncclComm_t comm) {
    int result = FF_ncclSuccess;
    for (work *w = comm->given, *next; w; w = next) {
        next = w->next;
        if (result == FF_ncclSuccess)
            result = enqueue(w);
        else
            free(w);
    }
    comm->given = NULL;
    done(comm, result);
}

static void help_finalize(ff_ncclComm_t comm) {
    while (comm->held > 0 && !comm->aborted) nap(100000);
    if (barrier(comm)) done(comm, FF_ncclSuccess);
}

/* The works of one communicator leave the list together. */
static int launch(work **list) {
    int result = FF_ncclSuccess;
    while (*list) {
        ff_ncclComm_t comm = (*list)->comm;
        work *given = NULL, **end = &given;
        for (work **w = list; *w;) {
            if ((*w)->comm != comm) {
                w = &(*w)->next;
                continue;
            }
            *end = *w;
            *w = (*w)->next;
            end = &(*end)->next;
            *end = NULL;
        }
        must_live(comm, "a collective");
        if (comm->state == FF_ncclSuccess) {
            join_helper(comm);
            comm->given = given;
            given = NULL;
        }
        const int code = start(comm, help_enqueue);
        if (code != FF_ncclSuccess) result = code;
        for (work *next; given; given = next) {
            next = given->next;
            free(given);
        }
    }
    return result;
}

static int give(ff_ncclComm_t comm, const void *from, void *to, call made, void *stream) {
    must_live(comm, "a collective");
    if (made.count == 0) return FF_ncclSuccess;
    const bool known = made.type == FF_ncclUint8 || made.type == FF_ncclFloat16 ||
                       made.type == FF_ncclFloat32 || made.type == FF_ncclBfloat16;
    if (!from || !to || !known || made.root < 0 || made.root >= comm->size) return INVALID_ARGUMENT;
    work *w = calloc(1, sizeof *w);
    if (!w) return SYSTEM_ERROR;
    *w = (work){.comm = comm, .call = made, .from = from, .to = to, .stream = stream};
    if (depth == 0) return launch(&w);
    if (!grouped) grouped_end = &grouped;
    *grouped_end = w;
    grouped_end = &w->next;
    return FF_ncclSuccess;
}

int ncclGroupStart(void) {
    depth++;
    return FF_ncclSuccess;
}

int ncclGroupEnd(void) {
    if (depth == 0) return INVALID_USAGE;
    return --depth == 0 ? launch(&grouped) : FF_ncclSuccess;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                  ff_ncclComm_t comm, void *stream) {
    if (operation != FF_ncclSum || type == FF_ncclUint8) return INVALID_ARGUMENT;
    return give(comm, from, to, (call){.kind = ALL_REDUCE, .type = type, .count = count}, stream);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, ff_ncclComm_t comm,
                  void *stream) {
    call made = {.kind = BROADCAST, .type = type, .root = root, .count = count};
    return give(comm, from, to, made, stream);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, ff_ncclComm_t comm,
                  void *stream) {
    return give(comm, from, to, (call){.kind = ALL_GATHER, .type = type, .count = count}, stream);
}

/* ---- communicators ---- */

int ncclGetVersion(int *version) {
    const char *text = getenv("FF_NCCL_SIM_VERSION");
    *version = text ? atoi(text) : VERSION;
    return FF_ncclSuccess;
}

const char *ncclGetErrorString(int result) {
    static const char *const words[] = {
        "no error",         "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
    return result >= 0 && result < 8 ? words[result] : "unknown result code";
}

const char *ncclGetLastError(ff_ncclComm_t comm) {
    return comm && comm->state != FF_ncclSuccess && comm->said ? comm->last_error : "";
}

int ncclGetUniqueId(ff_ncclUniqueId *id) {
    const int file = memfd_create("nccl_sim", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, RANKS * (off_t)sizeof(post)) != 0) return SYSTEM_ERROR;
    snprintf(id->internal, sizeof id->internal, "/proc/%d/fd/%d", (int)getpid(), file);
    return FF_ncclSuccess;
}

/* With the lock. */
static job *open_job(const char *name) {
    for (job *known = jobs; known; known = known->next)
        if (strcmp(known->name, name) == 0) return known;
    job *made = calloc(1, sizeof *made);
    const int file = made ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0)
        made->posts = mmap(NULL, RANKS * sizeof(post), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (file < 0 || made->posts == MAP_FAILED) {
        free(made);
        return NULL;
    }
    snprintf(made->name, sizeof made->name, "%s", name);
    made->next = jobs;
    return jobs = made;
}

/* The last of the process unmaps. */
static void leave_job(job *left) {
    pthread_mutex_lock(&all_lock);
    if (--left->users == 0) {
        int pid = 0, file = -1;
        job **at = &jobs;
        while (*at != left) at = &(*at)->next;
        *at = left->next;
        munmap(left->posts, RANKS * sizeof(post));
        if (sscanf(left->name, "/proc/%d/fd/%d", &pid, &file) == 2 && pid == (int)getpid())
            close(file);
        free(left);
    }
    pthread_mutex_unlock(&all_lock);
}

int ncclCommInitRankConfig(ff_ncclComm_t *out, int size, ff_ncclUniqueId id, int rank,
                           ff_ncclConfig_t *config) {
    *out = NULL;
    if (size < 1 || size > RANKS || rank < 0 || rank >= size) return INVALID_ARGUMENT;
    if (config && (config->magic != (unsigned)FF_NCCL_MAGIC || config->size < sizeof *config))
        return INVALID_ARGUMENT;
    ff_ncclComm_t comm = calloc(1, sizeof *comm);
    if (!comm) return SYSTEM_ERROR;
    pthread_mutex_lock(&all_lock);
    comm->job = open_job(id.internal);
    if (comm->job) {
        comm->job->users++;
        comm->next = comms;
        comms = comm;
    }
    pthread_mutex_unlock(&all_lock);
    if (!comm->job) {
        free(comm);
        return SYSTEM_ERROR;
    }
    const char *delay = getenv("FF_NCCL_SIM_DELAY_NS"), *fails = getenv("FF_NCCL_SIM_FAIL");
    const char *at = fails ? strchr(fails, ':') : NULL;
    if (strict_exchange_device) comm->device = strict_exchange_device(-1);
    comm->rank = rank;
    comm->size = size;
    comm->blocks = !config || config->blocking != 0;
    comm->delay_ns = delay ? strtoull(delay, NULL, 10) : 0;
    comm->random = (uint64_t)rank * 977 + 1;
    comm->fails = fails ? strtol(fails, NULL, 10) : -1;
    comm->fails_at = at ? strtol(at + 1, NULL, 10) : -1;
    *out = comm;
    return start(comm, help_init);
}

int ncclCommGetAsyncError(ff_ncclComm_t comm, int *result) {
    must_live(comm, "ncclCommGetAsyncError");
    *result = comm->state;
    return FF_ncclSuccess;
}

int ncclCommFinalize(ff_ncclComm_t comm) {
    must_live(comm, "ncclCommFinalize");
    return start(comm, help_finalize);
}

static void end(ff_ncclComm_t comm) {
    join_helper(comm);
    leave_job(comm->job);
    comm->ended = true;
}

int ncclCommDestroy(ff_ncclComm_t comm) {
    must_live(comm, "ncclCommDestroy");
    if (comm->state != FF_ncclSuccess || comm->held > 0) return INVALID_ARGUMENT;
    end(comm);
    return FF_ncclSuccess;
}

int ncclCommAbort(ff_ncclComm_t comm) {
    must_live(comm, "ncclCommAbort");
    comm->aborted = true;
    join_helper(comm); /* or it could still enqueue */
    while (comm->held > 0) nap(100000);
    end(comm);
    return FF_ncclSuccess;
}
