/* Guarded reading of mapped files: a file that shrinks, or a disk that fails, while its mapping is
 * read raises SIGBUS; inside a guard this becomes a return value and does not end the process.
 *
 * The handler is process-wide because signals are. It is installed on first use, and again where
 * another library has replaced it; it acts only on threads inside a guard, and passes every other
 * fault to the previous handler. Thread rule: guards
 * are per thread; they may nest (the innermost one takes the fault). */
#ifndef FF_BASE_GUARD_H
#define FF_BASE_GUARD_H

#include "format/base/status.h"

#include <stdbool.h>

/* Installs the handler again where another library has replaced it, for a system call; ff_guard_run
 * does so before every 64th guard of a thread. For the begin of a piece of work. */
void ff_guard_check(void);

/* Runs body(context). Returns NULL, or the faulting address where reading a mapping failed. body is
 * left at that point, so it must only read mappings and write memory that stays valid, and hold no
 * lock, allocation or descriptor. Costs about 10 ns. */
const void *ff_guard_run(void (*body)(void *context), void *context);

#endif
