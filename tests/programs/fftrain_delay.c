/* fftrain whose ranks are on a slow network: they share no memory, and every message arrives later
 * by FFTRAIN_DELAY_US microseconds. Linked with --wrap=ff_comm_processes_create. */
#include "train/comm/collective/processes.h"

#include "train/main.c" /* the program */

ff_status __real_ff_comm_processes_create(ff_comm **comm, const ff_comm_processes_options *options,
                                          ff_comm_memory memory, ff_error *error);
ff_status __wrap_ff_comm_processes_create(ff_comm **comm, const ff_comm_processes_options *options,
                                          ff_comm_memory memory, ff_error *error);

ff_status __wrap_ff_comm_processes_create(ff_comm **comm, const ff_comm_processes_options *options,
                                          ff_comm_memory memory, ff_error *error) {
    ff_comm_processes_options slow = *options;
    const char *delay = getenv("FFTRAIN_DELAY_US");
    slow.network = true;
    slow.delay_ns = delay ? strtoull(delay, NULL, 10) * 1000 : 0;
    return __real_ff_comm_processes_create(comm, &slow, memory, error);
}
