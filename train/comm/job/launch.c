#include "train/comm/job/launch.h"

#include "format/base/memory.h"
#include "format/base/read.h"
#include "format/base/thread.h"
#include "train/comm/job/channel_socket.h"
#include "train/comm/job/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 4096 };
static const uint64_t kill_ns = UINT64_C(5000000000);
static const int passed_on[] = {SIGINT, SIGTERM, SIGUSR1};

typedef struct rank_process {
    pid_t process; /* 0: has ended */
    int output;    /* its stderr; -1 = none */
    bool stopped;
    size_t used;
    char line[LINE];
} rank_process;

typedef struct rank_launch {
    int count, running, listener, signals;
    pid_t group;
    sigset_t before; /* blocked signals */
    char job[17];
    rank_process *children;
    struct pollfd *polled;
    uint64_t bad_ns;          /* when the first rank ended badly, 0 = none yet */
    int bad_rank, bad_status; /* the end with the largest weight, the first of equals */
    int ended;                /* the strongest signal sent to end the rest, 0 = none */
} rank_launch;

/* Runs in the new process. */
static void become_rank(const rank_launch *launch, int rank, int output, pid_t parent,
                        const char *path, char **argv) {
    const struct {
        const char *name;
        int value;
    } numbers[] = {{"FFTRAIN_RANK", rank},
                   {"FFTRAIN_RANKS", launch->count},
                   {"FFTRAIN_LISTENER", launch->listener}};
    bool bad = false;
    setpgid(0, launch->group);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); /* the parent ended before prctl */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", numbers[i].value);
        bad |= setenv(numbers[i].name, text, 1) != 0;
    }
    bad |= setenv("FFTRAIN_JOB", launch->job, 1) != 0;
    if (rank == 0)
        bad |= fcntl(launch->listener, F_SETFD, 0) != 0;
    else {
        const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        bad |= dup2(output, STDERR_FILENO) < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
               dup2(nothing, STDOUT_FILENO) < 0;
    }
    sigprocmask(SIG_SETMASK, &launch->before, NULL);
    if (!bad) execv(path, argv);
    fprintf(stderr, "cannot start %s as rank %d: %s\n", path, rank, strerror(errno));
    _exit(1);
}

static ff_status start_rank(rank_launch *launch, int rank, const char *path, char **argv,
                            ff_error *error) {
    rank_process *child = &launch->children[rank];
    int ends[2] = {-1, -1};
    if (rank && pipe2(ends, O_CLOEXEC) != 0)
        return ff_fail_errno(error, "rank %d: cannot make a pipe", rank);
    child->output = ends[0];
    if (rank) fcntl(ends[0], F_SETFL, O_NONBLOCK);
    const pid_t parent = getpid(), process = fork();
    if (process == 0) become_rank(launch, rank, ends[1], parent, path, argv);
    ff_close_file(&ends[1]);
    if (process < 0) return ff_fail_errno(error, "rank %d: cannot start a process", rank);
    if (!launch->group) launch->group = process;
    setpgid(process, launch->group);
    child->process = process;
    launch->running++;
    return FF_OK;
}

static void print_line(int rank, const char *line, size_t length) {
    char text[LINE + 32];
    const int used = snprintf(text, sizeof text, "rank %d: %.*s\n", rank, (int)length, line);
    if (write(STDERR_FILENO, text, (size_t)used) < 0) return; /* nobody reads stderr */
}

/* Passes on complete lines; if `ended`, also the rest. */
static void pass_on(rank_process *child, int rank, bool ended) {
    while (child->output >= 0) {
        const ssize_t got =
            read(child->output, child->line + child->used, sizeof child->line - child->used);
        if (got < 0 && errno == EINTR) continue;
        if (got > 0) child->used += (size_t)got;
        size_t begin = 0;
        for (const char *end; (end = memchr(child->line + begin, '\n', child->used - begin));
             begin = (size_t)(end - child->line) + 1)
            print_line(rank, child->line + begin, (size_t)(end - child->line) - begin);
        child->used -= begin;
        memmove(child->line, child->line + begin, child->used);
        const bool last = got == 0 || (got < 0 && ended);
        if (child->used && (last || child->used == sizeof child->line)) {
            print_line(rank, child->line, child->used);
            child->used = 0;
        }
        if (last || (got < 0 && errno != EAGAIN)) ff_close_file(&child->output);
        if (got < 0) return;
    }
}

/* How informative the end of a rank is: ranks that end because another is lost exit with 1, and may
 * exit before the lost rank's end is known. */
static int weight(int status) {
    if (!status) return 0;
    if (!WIFEXITED(status)) return 3;
    return WEXITSTATUS(status) == 75 ? 1 : WEXITSTATUS(status) == 1 ? 2 : 3;
}

/* Collects the ranks that have ended or stopped. */
static void look_after(rank_launch *launch) {
    for (int i = 0; i < launch->count; i++) {
        rank_process *child = &launch->children[i];
        int status;
        if (!child->process ||
            waitpid(child->process, &status, WNOHANG | WUNTRACED | WCONTINUED) <= 0)
            continue;
        child->stopped = WIFSTOPPED(status);
        if (!WIFEXITED(status) && !WIFSIGNALED(status)) continue;
        child->process = 0;
        launch->running--;
        pass_on(child, i, true);
        if (!status || launch->ended) continue;
        if (!launch->bad_ns) launch->bad_ns = ff_now_ns();
        if (weight(status) <= weight(launch->bad_status)) continue;
        launch->bad_rank = i;
        launch->bad_status = status;
    }
}

/* Ends the remaining ranks after one ended badly; returns how long to wait for the next step. */
static int end_rest(rank_launch *launch, uint64_t timeout_ns) {
    const uint64_t now = ff_now_ns();
    int moving = 0;
    if (!launch->bad_ns) return -1;
    for (int i = 0; i < launch->count; i++)
        moving += launch->children[i].process && !launch->children[i].stopped;
    const uint64_t until = launch->bad_ns + timeout_ns + (launch->ended == SIGTERM ? kill_ns : 0);
    if (moving && now < until) return (int)((until - now) / 1000000) + 1;
    const int number = moving && !launch->ended ? SIGTERM : SIGKILL;
    if (launch->running && launch->ended != SIGKILL) {
        kill(-launch->group, number);
        launch->ended = number;
    }
    return 100;
}

static bool is_passed_on(int number) {
    bool found = false;
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        found |= passed_on[i] == number;
    return found;
}

static void take_signal(const rank_launch *launch) {
    struct signalfd_siginfo came;
    while (read(launch->signals, &came, sizeof came) == (ssize_t)sizeof came) {
        if (is_passed_on((int)came.ssi_signo)) kill(-launch->group, (int)came.ssi_signo);
        if (came.ssi_signo == SIGTSTP) {
            kill(-launch->group, SIGSTOP);
            raise(SIGSTOP);
            kill(-launch->group, SIGCONT);
        }
    }
}

static void run(rank_launch *launch, uint64_t timeout_ns) {
    while (look_after(launch), launch->running) {
        const int wait_ms = end_rest(launch, timeout_ns);
        launch->polled[launch->count] = (struct pollfd){.fd = launch->signals, .events = POLLIN};
        for (int i = 0; i < launch->count; i++)
            launch->polled[i] = (struct pollfd){.fd = launch->children[i].output, .events = POLLIN};
        if (poll(launch->polled, (nfds_t)launch->count + 1, wait_ms) <= 0) continue;
        for (int i = 0; i < launch->count; i++)
            if (launch->polled[i].revents) pass_on(&launch->children[i], i, false);
        take_signal(launch);
    }
}

/* Makes a name that no other job has, and listens at the Unix socket with this name, which needs no
 * network. */
static ff_status prepare(rank_launch *launch, ff_error *error) {
    struct sockaddr_un address;
    uint64_t random;
    sigset_t taken;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return ff_fail_errno(error, "no random number for the name of the job");
    snprintf(launch->job, sizeof launch->job, "%016llx", (unsigned long long)random);
    const socklen_t length = ff_channel_name(launch->job, &address);
    launch->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (launch->listener < 0 || bind(launch->listener, (struct sockaddr *)&address, length) != 0 ||
        listen(launch->listener, SOMAXCONN) != 0)
        return ff_fail_errno(error, "cannot make a socket for the ranks");
    FF_TRY(ff_alloc(&launch->children, (uint64_t)launch->count, sizeof *launch->children,
                    "the ranks", error));
    FF_TRY(ff_alloc(&launch->polled, (uint64_t)launch->count + 1, sizeof *launch->polled,
                    "the ranks", error));
    for (int i = 0; i < launch->count; i++) launch->children[i].output = -1;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigaddset(&taken, SIGTSTP);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        sigaddset(&taken, passed_on[i]);
    sigprocmask(SIG_BLOCK, &taken, NULL);
    launch->signals = signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC);
    if (launch->signals < 0) return ff_fail_errno(error, "cannot wait for signals");
    return FF_OK;
}

/* Reports the end of a rank with `status`: a killed rank is lost. */
static ff_status say_how(int rank, int status, ff_error *error) {
    static const struct {
        int code;
        ff_status status;
    } known[] = {{2, FF_USAGE}, {65, FF_BAD_DATA}, {74, FF_IO}, {75, FF_PREEMPTED}};
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const bool stopped = WIFEXITED(status) ? code > 128 : is_passed_on(WTERMSIG(status));
    ff_status said = stopped ? FF_INTERRUPTED : FF_FAILED;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code) said = known[i].status;
    if (error) error->signal_number = stopped ? code - 128 : 0;
    if (said == FF_PREEMPTED) return ff_fail(error, said, "the ranks stopped after a checkpoint");
    if (WIFSIGNALED(status))
        return ff_fail(error, said, "rank %d was ended by signal %d (%s)", rank, code - 128,
                       strsignal(code - 128));
    return ff_fail(error, said, "rank %d ended with exit code %d", rank, code);
}

ff_status ff_ranks_start(int count, char **argv, uint64_t timeout_ns, ff_error *error) {
    rank_launch launch = {.count = count, .listener = -1, .signals = -1};
    ff_ranks already;
    char *path = NULL;
    ff_status status;
    FF_TRY(ff_ranks_read(&already, error));
    ff_ranks_free(&already);
    if (already.size > 1)
        return ff_fail(error, FF_USAGE, "--ranks %d: %s has started this process as rank %d of %d",
                       count, already.family, already.rank, already.size);
    sigprocmask(SIG_SETMASK, NULL, &launch.before);
    FF_TRY_DONE(prepare(&launch, error));
    path = realpath("/proc/self/exe", NULL);
    if (!path) FF_TRY_DONE(ff_fail_errno(error, "/proc/self/exe: cannot find this program"));
    for (int i = 0; i < count && status == FF_OK; i++)
        status = start_rank(&launch, i, path, argv, error);
    ff_close_file(&launch.listener);
    if (status != FF_OK) {
        if (launch.group) kill(-launch.group, SIGKILL);
        launch.ended = SIGKILL;
    }
    run(&launch, timeout_ns);
    if (status == FF_OK && launch.bad_ns)
        status = say_how(launch.bad_rank, launch.bad_status, error);
done:
    for (int i = 0; i < count && launch.children; i++) ff_close_file(&launch.children[i].output);
    ff_close_file(&launch.listener);
    ff_close_file(&launch.signals);
    free(launch.children);
    free(launch.polled);
    free(path);
    return status;
}
