#include "format/base/guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

/* Per thread, not per process: two threads may fault at once. */
static _Thread_local sigjmp_buf *volatile guard_target;
static _Thread_local const void *volatile guard_address;

/* A thread checks the handler before every 64th guard, because libraries that are loaded later may
 * install their own (UCX, which comes with Debian 13's PyTorch). A check costs a system call. */
enum { GUARDS_A_CHECK = 64 };
static _Thread_local unsigned guards;
/* Marks the record of a signal that was passed on. If the previous handler passes the signal back,
 * the record is the same; the next signal has a new record, even after a handler left by
 * siglongjmp. */
enum { PASSED_ON = 0x66667061 };

static pthread_mutex_t install_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction previous_action;

static void on_bus_error(int number, siginfo_t *info, void *machine_context) {
    if (guard_target) {
        guard_address = info->si_addr;
        /* Leaving by siglongjmp must not leave signals blocked. The context holds the mask from
         * before the fault: saving the mask at every guard would cost a system call each. */
        pthread_sigmask(SIG_SETMASK, &((const ucontext_t *)machine_context)->uc_sigmask, NULL);
        siglongjmp(*guard_target, 1);
    }
    if (info->si_errno == PASSED_ON) {
        signal(number, SIG_DFL);
        return;
    }
    info->si_errno = PASSED_ON;
    if (previous_action.sa_flags & SA_SIGINFO) {
        previous_action.sa_sigaction(number, info, machine_context);
    } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
        previous_action.sa_handler(number);
    } else {
        signal(number, SIG_DFL); /* the instruction faults again and ends the process */
    }
}

void ff_guard_check(void) {
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sigaction now;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == on_bus_error)
        return; /* without the lock, for which threads would wait */
    pthread_mutex_lock(&install_mutex);
    if (sigaction(SIGBUS, NULL, &now) == 0 &&
        !((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error)) {
        previous_action = now;
        sigaction(SIGBUS, &action, NULL);
    }
    pthread_mutex_unlock(&install_mutex);
}

const void *ff_guard_run(void (*body)(void *context), void *context) {
    if (guards++ % GUARDS_A_CHECK == 0) ff_guard_check();
    sigjmp_buf target;
    sigjmp_buf *volatile outer = guard_target;
    const void *volatile fault = NULL;
    if (sigsetjmp(target, 0) == 0) {
        guard_target = &target;
        body(context);
    } else {
        fault = guard_address;
        if (!fault) fault = context; /* si_addr may be unknown */
    }
    guard_target = outer;
    return fault;
}
