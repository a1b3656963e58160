#include "format/base/interrupt.h"

#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t received;

static void on_signal(int number) {
    if (received) _exit(128 + number);
    received = number;
}

void ff_interrupt_install(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int ff_interrupt_signal(void) {
    return received;
}

ff_status ff_interrupt_check(ff_error *error) {
    int number = received;
    if (!number) return FF_OK;
    if (error) error->signal_number = number;
    return ff_fail(error, FF_INTERRUPTED, "stopped by %s",
                   number == SIGINT    ? "SIGINT"
                   : number == SIGTERM ? "SIGTERM"
                                       : "a signal");
}
