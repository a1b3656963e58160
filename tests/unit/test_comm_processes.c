/* The communicator of processes, through shared memory, over TCP and mixed: results, staged memory,
 * delays, abort, a rank that is killed. The tree of sums, and the barrier, in threads. */
#include "format/base/thread.h"
#include "tests/cuda/sim/device.h"
#include "tests/unit/check.h"
#include "tests/unit/comm_case.h"
#include "train/comm/collective/processes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 8, BLOB = 2048 };
#define SECOND UINT64_C(1000000000)

/* Shared by the processes of a job: a gather, and what each rank says at its end. */
typedef struct board {
    ff_barrier barrier;
    char blobs[RANKS][BLOB];
    size_t lengths[RANKS];
    char said[RANKS][1024]; /* "" = well */
    uint64_t ended_ns[RANKS];
} board;

typedef struct rank_process {
    board *board;
    ff_comm_processes_options options;
    ff_device *device;
    ff_comm *comm;
    ff_error error;
    bool other_machine;
} rank_process;

static ff_status gather(void *context, const void *bytes, size_t length, ff_buffer *parts,
                        ff_error *error) {
    rank_process *p = context;
    board *b = p->board;
    if (length > BLOB) return ff_fail(error, FF_FAILED, "blob of %zu bytes", length);
    memcpy(b->blobs[p->options.rank], bytes, length);
    /* An introduction begins with the machine's name. */
    if (p->other_machine && length > 100) b->blobs[p->options.rank][0] = '!';
    b->lengths[p->options.rank] = length;
    FF_TRY(ff_barrier_wait(&b->barrier, NULL, NULL, error));
    for (int r = 0; r < p->options.size; r++)
        FF_TRY(ff_buffer_add(&parts[r], b->blobs[r], b->lengths[r], error));
    return ff_barrier_wait(&b->barrier, NULL, NULL, error);
}

typedef struct settings {
    int count;
    ff_host_streams streams;
    int staged; /* 1: every rank, 2: odd ones */
    bool network;
    uint64_t delay_ns;
    int machines; /* ranks are dealt to so many */
    ff_status (*body)(rank_process *p, ff_error *error);
    int killed; /* this rank ends by SIGKILL */
} settings;

static void rank_main(const settings *s, board *b, int rank) {
    alarm(300); /* a test fails rather than hangs */
    /* A rank that crashes ends; cmocka's handlers would continue with the next test. */
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (int i = 0; i < 5; i++) signal(crashes[i], SIG_DFL);
    rank_process p = {.board = b, .other_machine = s->machines == 2 && rank % 2};
    p.options = (ff_comm_processes_options){.rank = rank,
                                            .size = s->count,
                                            .gather = gather,
                                            .context = &p,
                                            .timeout_ns = 60 * SECOND,
                                            .network = s->network,
                                            .delay_ns = s->delay_ns};
    ff_status status =
        ff_device_sim_create(&p.device, s->streams, 100000, (uint64_t)rank + 1, &p.error);
    const ff_comm_memory memory = {p.device, s->staged == 1 || (s->staged == 2 && rank % 2)};
    if (status == FF_OK) status = ff_comm_processes_create(&p.comm, &p.options, memory, &p.error);
    if (status == FF_OK) status = s->body(&p, &p.error);
    b->ended_ns[rank] = ff_now_ns();
    if (status != FF_OK) snprintf(b->said[rank], sizeof b->said[rank], "%.1000s", p.error.message);
    ff_comm_destroy(&p.comm);
    ff_device_destroy(&p.device);
    _exit(0);
}

static board *run_job(const settings *s) {
    void *memory =
        mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    board *b = memory;
    pid_t pids[RANKS];
    ff_barrier_init(&b->barrier, s->count);
    fflush(NULL);
    for (int r = 0; r < s->count; r++) {
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] == 0) rank_main(s, b, r);
    }
    for (int r = 0; r < s->count; r++) {
        int ended;
        assert_int_equal(waitpid(pids[r], &ended, 0), pids[r]);
        if (s->killed && r == s->killed)
            assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
        else
            assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    }
    return b;
}

static void free_job(board *b) {
    munmap(b, sizeof *b);
}

/* Runs a job that ends by a failure until it ends within a second. A machine that is busy may take
 * longer, but not each time. */
static void check_ends(const settings *s, const char *said) {
    uint64_t longest = UINT64_MAX;
    for (int i = 0; i < 8 && longest > SECOND; i++) {
        board *b = run_job(s);
        longest = 0;
        for (int r = 0; r < s->count; r++) {
            if (s->killed && r == s->killed) continue;
            if (s->killed ? !strstr(b->said[r], said) : strcmp(b->said[r], said))
                fail_msg("rank %d says '%s'", r, b->said[r]);
            const uint64_t took = b->ended_ns[r] - b->ended_ns[RANKS - 1];
            if (took > longest) longest = took;
        }
        free_job(b);
    }
    assert_in_range(longest, 0, SECOND);
}

static ff_status check_body(rank_process *p, ff_error *error) {
    return comm_check_all(p->comm, p->device, true, error);
}

static void check_job(settings s) {
    s.body = check_body;
    board *b = run_job(&s);
    for (int r = 0; r < s.count; r++)
        if (b->said[r][0]) fail_msg("%s", b->said[r]);
    free_job(b);
}

/* Sums of every number of ranks, by the tree alone. */
static void trees(void **state) {
    (void)state;
    enum { N = 1000 };
    static float values[FF_COMM_RANKS_MOST][N], sum[N];
    const void *parts[FF_COMM_RANKS_MOST];
    for (int count = 1; count <= FF_COMM_RANKS_MOST; count++) {
        for (int r = 0; r < count; r++) {
            parts[r] = values[r];
            for (size_t i = 0; i < N; i++) values[r][i] = comm_value(r, i, 9);
        }
        ff_comm_sum(sum, parts, count, FF_F32, N);
        for (size_t i = 0; i < N; i++) {
            float column[FF_COMM_RANKS_MOST];
            for (int r = 0; r < count; r++) column[r] = values[r][i];
            float wanted = comm_tree(column, count);
            assert_memory_equal(&sum[i], &wanted, sizeof wanted);
        }
    }
}

enum { WAITS = 2000 };
typedef struct meeting {
    ff_barrier barrier;
    int count, at[RANKS]; /* not atomic: the barrier orders them */
    bool late[RANKS];
} meeting;

static void meet_body(void *context, int rank) {
    meeting *m = context;
    for (int i = 0; i < WAITS; i++) {
        m->at[rank] = i;
        if (ff_barrier_wait(&m->barrier, NULL, NULL, NULL) != FF_OK) return;
        for (int r = 0; r < m->count; r++) m->late[rank] |= m->at[r] != i;
        if (ff_barrier_wait(&m->barrier, NULL, NULL, NULL) != FF_OK) return;
    }
}

static void barrier(void **state) {
    (void)state;
    for (int count = 1; count <= RANKS; count++) {
        meeting m = {.count = count};
        ff_threads *threads;
        ff_barrier_init(&m.barrier, count);
        assert_ok(ff_threads_start(&threads, count, "rank", meet_body, &m, error));
        ff_threads_join(&threads);
        for (int r = 0; r < count; r++) assert_false(m.late[r]);
    }
}

static void wait_for_third(void *context, int rank) {
    ff_error own;
    ff_barrier *of_three = context;
    (void)rank;
    assert_int_equal(ff_barrier_wait(of_three, NULL, NULL, &own), FF_FAILED);
    assert_string_equal(own.message, "the third is gone");
}

/* A failure ends waits that began before it. */
static void barrier_fails(void **state) {
    ff_barrier of_three = {0};
    ff_threads *threads;
    (void)state;
    alarm(60); /* the test fails rather than hangs */
    ff_barrier_init(&of_three, 3);
    assert_ok(ff_threads_start(&threads, 2, "rank", wait_for_third, &of_three, error));
    usleep(50000);
    ff_barrier_fail(&of_three, "the third is gone");
    ff_threads_join(&threads);
    alarm(0);
}

static void shared_memory(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 4, 5, 8};
    for (int i = 0; i < 6; i++)
        check_job((settings){.count = counts[i],
                             .streams = i % 2 ? FF_HOST_STREAMS_THREADS : FF_HOST_STREAMS_CALLER});
}

static void network(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 4, 5, 8};
    for (int i = 0; i < 6; i++)
        check_job((settings){.count = counts[i],
                             .network = true,
                             .streams = i % 2 ? FF_HOST_STREAMS_CALLER : FF_HOST_STREAMS_THREADS});
}

static void machines(void **state) {
    (void)state;
    check_job((settings){.count = 2, .machines = 2});
    check_job((settings){.count = 5, .machines = 2, .streams = FF_HOST_STREAMS_THREADS});
}

static void staged(void **state) {
    (void)state;
    check_job((settings){.count = 2, .staged = 1, .streams = FF_HOST_STREAMS_THREADS});
    check_job((settings){.count = 3, .staged = 2, .streams = FF_HOST_STREAMS_THREADS});
    check_job((settings){.count = 8, .staged = 1, .streams = FF_HOST_STREAMS_CALLER});
    check_job(
        (settings){.count = 3, .staged = 1, .network = true, .streams = FF_HOST_STREAMS_THREADS});
}

/* ---- delays ---------------------------------------------------------------------------------- */

static ff_status delay_body(rank_process *p, ff_error *error) {
    float values[64] = {0};
    ff_stream *stream;
    FF_TRY(p->device->table->stream_create(p->device, &stream, error));
    uint64_t begun = ff_now_ns();
    ff_status status = FF_OK;
    for (int i = 0; i < 5 && status == FF_OK; i++)
        status = p->comm->table->all_reduce(p->comm, stream, values, 64, FF_F32, error);
    uint64_t took = ff_now_ns() - begun;
    p->device->table->stream_destroy(p->device, stream);
    if (status == FF_OK && took < 5 * p->options.delay_ns)
        return ff_fail(error, FF_FAILED, "5 messages took %llu ns", (unsigned long long)took);
    return status;
}

static void delays(void **state) {
    (void)state;
    settings s = {.count = 2, .delay_ns = 20000000, .body = delay_body};
    board *b = run_job(&s);
    for (int r = 0; r < s.count; r++) assert_string_equal(b->said[r], "");
    free_job(b);
}

/* ---- abort and loss -------------------------------------------------------------------------- */

static ff_status reduce_forever(rank_process *p, ff_error *error) {
    enum { N = 100000 };
    ff_stream *stream;
    ff_status status;
    float *values;
    FF_TRY(ff_alloc(&values, N, sizeof *values, "values", error));
    FF_TRY(p->device->table->stream_create(p->device, &stream, error));
    do {
        FF_TRY(p->comm->table->all_reduce(p->comm, stream, values, N, FF_F32, error));
        FF_TRY(p->device->table->stream_synchronize(p->device, stream, error));
        status = p->comm->table->check(p->comm, error);
    } while (status == FF_OK);
    p->device->table->stream_destroy(p->device, stream);
    free(values);
    return status;
}

static void *end_soon(void *context) {
    rank_process *p = context;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    p->board->ended_ns[RANKS - 1] = ff_now_ns();
    p->comm->table->abort(p->comm, "rank 1 had enough");
    return NULL;
}

static ff_status abort_body(rank_process *p, ff_error *error) {
    pthread_t other;
    bool mine = p->options.rank == 1;
    if (mine && pthread_create(&other, NULL, end_soon, p) != 0)
        return ff_fail(error, FF_FAILED, "no thread");
    ff_status status = reduce_forever(p, error);
    if (mine) pthread_join(other, NULL);
    return status;
}

static void aborts(void **state) {
    (void)state;
    for (int times = 0; times < 3; times++) {
        settings s = {.count = 3, .network = times > 0, .machines = 1, .body = abort_body};
        if (times == 2) s = (settings){.count = 3, .machines = 2, .body = abort_body};
        check_ends(&s, "rank 1 had enough");
    }
}

/* Rank 1 waits for rank 0 alone, which sends nothing; it hears of rank 2, which it does not wait
 * for. */
static ff_status notice_body(rank_process *p, ff_error *error) {
    const int rank = p->options.rank;
    char byte = 0;
    if (rank == 1) {
        ff_stream *stream;
        FF_TRY(p->device->table->stream_create(p->device, &stream, error));
        ff_status status = p->comm->table->broadcast(p->comm, stream, &byte, 1, 0, error);
        p->device->table->stream_destroy(p->device, stream);
        return status == FF_OK ? p->comm->table->check(p->comm, error) : status;
    }
    if (rank == 2) {
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        p->board->ended_ns[RANKS - 1] = ff_now_ns();
        p->comm->table->abort(p->comm, "rank 2 had enough");
    }
    while (!p->board->ended_ns[1]) usleep(1000);
    return FF_OK;
}

static void notices(void **state) {
    (void)state;
    settings s = {.count = 3, .network = true, .body = notice_body};
    board *b = run_job(&s);
    assert_string_equal(b->said[1], "rank 2 had enough");
    free_job(b);
}

static void *kill_soon(void *context) {
    board *b = context;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    b->ended_ns[RANKS - 1] = ff_now_ns();
    raise(SIGKILL);
    return NULL;
}

/* Rank 2 is killed amid sums, or while the others wait for it. */
static ff_status kill_body(rank_process *p, ff_error *error) {
    pthread_t other;
    if (p->options.rank == 2 && pthread_create(&other, NULL, kill_soon, p->board) != 0)
        return ff_fail(error, FF_FAILED, "no thread");
    return reduce_forever(p, error);
}

static ff_status stop_body(rank_process *p, ff_error *error) {
    if (p->options.rank == 2) kill_soon(p->board);
    return reduce_forever(p, error);
}

static void killed(void **state) {
    (void)state;
    for (int times = 0; times < 12; times++) {
        settings s = {.count = 4, .killed = 2, .network = times % 3 == 1, .machines = 1};
        if (times % 3 == 2) s.machines = 2;
        s.body = times % 2 ? kill_body : stop_body;
        check_ends(&s, "rank 2 is lost");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees),         cmocka_unit_test(barrier), cmocka_unit_test(barrier_fails),
        cmocka_unit_test(shared_memory), cmocka_unit_test(network), cmocka_unit_test(machines),
        cmocka_unit_test(staged),        cmocka_unit_test(delays),  cmocka_unit_test(aborts),
        cmocka_unit_test(notices),       cmocka_unit_test(killed),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
