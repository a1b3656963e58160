#include "format/cli/interrupt.h"

#include "format/base/thread.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int received;
static sigset_t taken;
static ff_threads *taker;

static void take(void *context, int index) {
    (void)context, (void)index;
    for (int number;;) {
        if (sigwait(&taken, &number) != 0) continue;
        if (received) _exit(128 + number);
        received = number;
    }
}

void ff_interrupt_install(int also) {
    ff_error error;
    if (taker) return;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&taken);
    sigaddset(&taken, SIGINT);
    sigaddset(&taken, SIGTERM);
    struct sigaction action;
    if (also && sigaction(also, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
        sigaddset(&taken, also);
    pthread_sigmask(SIG_BLOCK, &taken, NULL);
    if (ff_threads_start(&taker, 1, "signals", take, NULL, &error) == FF_OK) return;
    pthread_sigmask(SIG_UNBLOCK, &taken, NULL);
}

const char *ff_interrupt_name(int number) {
    return number == SIGINT    ? "SIGINT"
           : number == SIGTERM ? "SIGTERM"
           : number == SIGUSR1 ? "SIGUSR1"
           : number == SIGPIPE ? "SIGPIPE"
                               : "a signal";
}

void ff_interrupt_raise(int number) {
    int none = 0;
    atomic_compare_exchange_strong(&received, &none, number);
}

int ff_interrupt_signal(void) {
    return received;
}

ff_status ff_interrupt_fail(int number, ff_error *error) {
    if (error) error->signal_number = number;
    return ff_fail(error, FF_INTERRUPTED, "stopped by %s", ff_interrupt_name(number));
}

ff_status ff_interrupt_check(ff_error *error) {
    const int number = received;
    return number ? ff_interrupt_fail(number, error) : FF_OK;
}
