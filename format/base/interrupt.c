#include "format/base/interrupt.h"

#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t received;

static void on_signal(int number) {
    if (received) _exit(128 + number);
    received = number;
}

void ff_interrupt_add(int number) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void ff_interrupt_install(void) {
    ff_interrupt_add(SIGINT);
    ff_interrupt_add(SIGTERM);
    signal(SIGPIPE, SIG_IGN);
}

const char *ff_interrupt_name(int number) {
    return number == SIGINT    ? "SIGINT"
           : number == SIGTERM ? "SIGTERM"
           : number == SIGUSR1 ? "SIGUSR1"
                               : "a signal";
}

int ff_interrupt_signal(void) {
    return received;
}

ff_status ff_interrupt_check(ff_error *error) {
    int number = received;
    if (!number) return FF_OK;
    if (error) error->signal_number = number;
    return ff_fail(error, FF_INTERRUPTED, "stopped by %s", ff_interrupt_name(number));
}
