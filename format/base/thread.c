#include "format/base/thread.h"

#include "format/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { SMALL_STACK_BYTES = 256 << 10 };

/* cgroup v2's cpu.max is "quota period" or "max period". */
static int cgroup_quota(void) {
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file) return 0;
    double quota = 0, period = 0;
    int fields = fscanf(file, "%lf %lf", &quota, &period);
    fclose(file);
    return fields == 2 && period > 0 ? (int)ceil(quota / period) : 0;
}

int ff_cpu_count(void) {
    int count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
    int quota = cgroup_quota();
    if (quota > 0 && quota < count) count = quota;
    return count > 0 ? count : 1;
}

typedef struct ff_thread {
    pthread_t handle;
    ff_threads *group;
    int index;
} ff_thread;

struct ff_threads {
    ff_thread_body body;
    void *context;
    int count;
    ff_thread thread[];
};

static void *thread_main(void *argument) {
    ff_thread *thread = argument;
    thread->group->body(thread->group->context, thread->index);
    return NULL;
}

/* A stack size of 0 is the default. The C library also puts thread-local variables on the stack: if
 * the variables of all libraries leave too little room, the library refuses the size, and the
 * default is used. */
static int create(ff_thread *thread, size_t stack_bytes) {
    pthread_attr_t attributes;
    int failure = EINVAL;
    pthread_attr_init(&attributes);
    if (stack_bytes && pthread_attr_setstacksize(&attributes, stack_bytes) == 0)
        failure = pthread_create(&thread->handle, &attributes, thread_main, thread);
    pthread_attr_destroy(&attributes);
    return failure == EINVAL ? pthread_create(&thread->handle, NULL, thread_main, thread) : failure;
}

static ff_status start(ff_threads **out, int count, const char *name, size_t stack_bytes,
                       ff_thread_body body, void *context, ff_error *error) {
    *out = NULL;
    ff_threads *threads;
    FF_TRY(ff_alloc(&threads, 1, sizeof *threads + (size_t)count * sizeof threads->thread[0],
                    "threads", error));
    threads->body = body;
    threads->context = context;
    sigset_t all, before;
    sigfillset(&all);
    /* Faults must stay deliverable: the mapping guard handles SIGBUS on the faulting thread. */
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = 0;
    for (int i = 0; i < count && !failure; i++) {
        ff_thread *thread = &threads->thread[i];
        thread->group = threads;
        thread->index = i;
        failure = create(thread, stack_bytes);
        if (failure) break;
        threads->count++;
        char label[32];
        snprintf(label, sizeof label, "%.10s-%d", name, i % 1000);
        label[15] = 0; /* the kernel's limit */
        pthread_setname_np(thread->handle, label);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failure) {
        *out = threads;
        return FF_OK;
    }
    /* The started threads wait for work, and only the caller can stop them. So return the group for
     * the caller to stop and join. */
    *out = threads;
    return ff_fail(error, FF_FAILED, "cannot start thread %d of %d (%s): %s", threads->count + 1,
                   count, name, strerror(failure));
}

ff_status ff_threads_start(ff_threads **threads, int count, const char *name, ff_thread_body body,
                           void *context, ff_error *error) {
    return start(threads, count, name, 0, body, context, error);
}

ff_status ff_threads_start_small(ff_threads **threads, int count, const char *name,
                                 ff_thread_body body, void *context, ff_error *error) {
    return start(threads, count, name, SMALL_STACK_BYTES, body, context, error);
}

void ff_threads_join(ff_threads **threads) {
    if (!*threads) return;
    for (int i = 0; i < (*threads)->count; i++) pthread_join((*threads)->thread[i].handle, NULL);
    free(*threads);
    *threads = NULL;
}

typedef struct parallel_for {
    void (*body)(void *context, size_t index);
    void *context;
    size_t count;
    atomic_size_t next;
} parallel_for;

static void parallel_body(void *argument, int thread_index) {
    (void)thread_index;
    parallel_for *job = argument;
    for (size_t index; (index = atomic_fetch_add(&job->next, 1)) < job->count;)
        job->body(job->context, index);
}

ff_status ff_parallel_for(int thread_count, size_t count, void (*body)(void *, size_t),
                          void *context, ff_error *error) {
    parallel_for job = {.body = body, .context = context, .count = count};
    if ((size_t)thread_count > count) thread_count = (int)count;
    ff_threads *threads = NULL;
    ff_status status = FF_OK;
    if (thread_count > 1)
        status =
            ff_threads_start(&threads, thread_count - 1, "parallel", parallel_body, &job, error);
    parallel_body(&job, 0);
    ff_threads_join(&threads);
    return status;
}

static uint64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t ff_now_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

ff_usage ff_usage_now(void) {
    struct rusage used;
    ff_usage usage = {.busy_ns = read_clock(CLOCK_THREAD_CPUTIME_ID)};
    if (getrusage(RUSAGE_THREAD, &used)) return usage;
    usage.pages_awaited = (uint64_t)used.ru_majflt;
    usage.bytes_read = (uint64_t)used.ru_inblock * 512;
    return usage;
}

/* Time that the calling thread was ready to run, and did not; false if the kernel does not count it
 * (CONFIG_SCHED_INFO). Allocates nothing: the C library would give each thread that allocates a
 * heap of its own, of 64 MiB of addresses. */
static bool read_queued(uint64_t *ns) {
    char text[64]; /* "RUNNING QUEUED SLICES" */
    char *end;
    const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    const ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0) return false;
    text[got] = 0;
    const char *queued = strchr(text, ' ');
    if (!queued) return false;
    *ns = strtoull(queued, &end, 10);
    return end > queued + 1;
}

ff_queue_look ff_queue_begin(ff_queue_watch *watch) {
    enum { EVERY_NS = 1000000 };
    ff_queue_look look = {.began_ns = ff_now_ns()};
    if (look.began_ns < watch->next_ns) return look;
    watch->next_ns = look.began_ns + EVERY_NS;
    look.looks = read_queued(&look.queued_ns);
    return look;
}

void ff_queue_end(ff_queue_watch *watch, const ff_queue_look *look) {
    uint64_t queued;
    if (!look->looks || !read_queued(&queued)) return;
    watch->queued_ns += queued - look->queued_ns;
    watch->looked_ns += ff_now_ns() - look->began_ns;
}

double ff_queue_share(const ff_queue_watch *watch) {
    if (watch->queued_ns >= watch->looked_ns) return watch->looked_ns ? 1 : 0;
    return (double)watch->queued_ns / (double)watch->looked_ns;
}
