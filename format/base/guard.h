/* Guarded reading of mapped files: a file that shrinks, or a disk that fails, while its mapping is
 * read raises SIGBUS; inside a guard that becomes a result instead of the end of the process.
 *
 * The handler is process-wide because signals are; it is installed once, on first use, acts only on
 * threads that are inside a guard, and passes every other fault on to the handler before it.
 * Thread rule: guards are per thread; they may nest (the innermost one takes the fault). */
#ifndef FF_BASE_GUARD_H
#define FF_BASE_GUARD_H

#include "format/base/status.h"

#include <stdbool.h>

/* Runs body(context). Returns NULL, or the faulting address where reading a mapping failed; then
 * body was left at that point, so body must only read mappings and write memory that stays valid,
 * and hold no lock, allocation or descriptor. Costs about 10 ns. */
const void *ff_guard_run(void (*body)(void *context), void *context);

#endif
