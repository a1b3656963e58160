/* SIGINT and SIGTERM as a flag: a separate thread receives the signals and sets the flag; loops
 * check it and stop at a safe point. A second signal ends the process at once with 128 + its
 * number.
 *
 * There is no handler, because a thread that computes cannot run one: oneDNN's matrix products use
 * the stack pointer for memory of the heap, and the kernel would write the handler's frame
 * there. */
#ifndef FF_BASE_INTERRUPT_H
#define FF_BASE_INTERRUPT_H

#include "format/base/status.h"

/* Starts the signal thread and blocks the signals in the caller. A main calls this once before it
 * starts other threads, which inherit the blocked signals. `also` is another signal that is treated
 * in the same way, unless it is ignored (nohup), or 0. If the thread cannot start, the signals keep
 * their default action. */
void ff_interrupt_install(int also);

/* "SIGTERM". */
const char *ff_interrupt_name(int number);

/* Sets the flag as if a signal had arrived: SIGPIPE if nobody reads the program's output any more.
 * Thread-safe. */
void ff_interrupt_raise(int number);

/* 0, or the number of the signal that arrived. Thread-safe. */
int ff_interrupt_signal(void);

/* FF_INTERRUPTED by signal `number`, which another process may have received. */
FF_MUST_USE ff_status ff_interrupt_fail(int number, ff_error *error);

/* FF_OK, or FF_INTERRUPTED with "stopped by SIGINT" in error. Thread-safe. */
FF_MUST_USE ff_status ff_interrupt_check(ff_error *error);

#endif
