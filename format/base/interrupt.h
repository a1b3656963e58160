/* SIGINT and SIGTERM as a flag: the handler only sets it; loops check it and stop at a safe point.
 * A second signal ends the process at once with 128 + its number. */
#ifndef FF_BASE_INTERRUPT_H
#define FF_BASE_INTERRUPT_H

#include "format/base/status.h"

/* Installs the handlers; called once by a main before its threads start. */
void ff_interrupt_install(void);

/* Another signal that is treated alike. */
void ff_interrupt_add(int number);
/* "SIGTERM". */
const char *ff_interrupt_name(int number);

/* 0, or the number of the signal that arrived. Thread-safe. */
int ff_interrupt_signal(void);

/* FF_OK, or FF_INTERRUPTED with "stopped by SIGINT" in error. Thread-safe. */
FF_MUST_USE ff_status ff_interrupt_check(ff_error *error);

#endif
