/* Guarded reading of mapped files. If a mapped file shrinks or its disk fails, reading the mapping
 * raises SIGBUS; inside a guard the signal becomes a return value and does not end the process.
 *
 * The handler is process-wide because signals are. It is installed on first use, and again if
 * another library has replaced it. It acts only on threads inside a guard, and passes every other
 * fault to the previous handler. Thread rule: guards are per thread; they may nest (the innermost
 * one takes the fault). */
#ifndef FF_BASE_GUARD_H
#define FF_BASE_GUARD_H

#include "format/base/status.h"

#include <stdbool.h>

/* Installs the handler again if another library has replaced it; costs a system call. ff_guard_run
 * does this before every 64th guard of a thread; call it when a piece of work begins. */
void ff_guard_check(void);

/* Runs body(context). Returns NULL, or the faulting address if reading a mapping failed. A fault
 * leaves body at that point, so body must only read mappings and write memory that stays valid, and
 * must hold no lock, allocation or descriptor. Costs about 10 ns. */
const void *ff_guard_run(void (*body)(void *context), void *context);

#endif
