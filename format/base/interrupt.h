/* SIGINT and SIGTERM as a flag: a thread of its own takes them and sets it; loops check it and stop
 * at a safe point. A second signal ends the process at once with 128 + its number.
 *
 * There is no handler, because a thread that computes cannot run one: oneDNN's matrix products use
 * the stack pointer for memory of the heap, and the kernel would write the handler's frame there.
 */
#ifndef FF_BASE_INTERRUPT_H
#define FF_BASE_INTERRUPT_H

#include "format/base/status.h"

/* Starts that thread and blocks the signals in the caller; called once by a main before its other
 * threads start, which inherit that. `also` is another signal that is treated alike, unless it
 * is ignored (nohup), or 0. Where the thread cannot start, the signals keep their default action.
 */
void ff_interrupt_install(int also);

/* "SIGTERM". */
const char *ff_interrupt_name(int number);

/* As if a signal had arrived: SIGPIPE where nobody reads any more what a program is asked to say.
 * Thread-safe. */
void ff_interrupt_raise(int number);

/* 0, or the number of the signal that arrived. Thread-safe. */
int ff_interrupt_signal(void);

/* FF_INTERRUPTED by this signal, which may be another process's. */
FF_MUST_USE ff_status ff_interrupt_fail(int number, ff_error *error);

/* FF_OK, or FF_INTERRUPTED with "stopped by SIGINT" in error. Thread-safe. */
FF_MUST_USE ff_status ff_interrupt_check(ff_error *error);

#endif
