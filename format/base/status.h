/* Room format/base, floor 0: what every program here needs and no other room has.
 *
 * Errors come first: a function that can fail returns a status and a sentence (this header).
 * Memory, files and paths are checked by the same rule (memory.h, file.h, path.h, read.h). Threads
 * are in thread.h; guard.h catches a mapped file that shrinks. json.h and csv.h read what others
 * wrote.
 *
 * May include nothing.
 *
 * Status and error context: how every fallible function of ffpack reports failure.
 *
 * A fallible function returns ff_status, takes an `ff_error *` as its last argument and, on
 * failure, fills it with one sentence: the path, the place, what was found and what was wanted.
 * `error` may be NULL. Thread rule: an ff_error belongs to one thread at a time. Only the three
 * mains print and exit. */
#ifndef FF_BASE_STATUS_H
#define FF_BASE_STATUS_H

#include <stddef.h>

#define FF_MUST_USE                    __attribute__((warn_unused_result))
#define FF_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))

typedef enum ff_status {
    FF_OK = 0,
    FF_FAILED,      /* runtime failure not caused by data; exit 1 */
    FF_USAGE,       /* a wrong option, value or combination; exit 2 */
    FF_BAD_DATA,    /* the data read is broken, inconsistent or refused; exit 65 */
    FF_IO,          /* the operating system refused a read, write, open, fsync, rename; exit 74 */
    FF_NO_MEMORY,   /* an allocation failed; exit 1 */
    FF_INTERRUPTED, /* stopped by a signal; exit 128 + signal */
    FF_PREEMPTED,   /* stopped by a signal, after a checkpoint was saved; exit 75 */
} ff_status;

typedef struct ff_error {
    ff_status status;
    int signal_number; /* with FF_INTERRUPTED: the signal */
    int system_errno;  /* with FF_IO: errno if a system call failed, else 0 */
    char message[2048];
} ff_error;

/* Fills `error` (unless NULL) and returns `status`, so that callers write `return ff_fail(error,
 * FF_BAD_DATA, "%s: ...", path, ...)`. */
ff_status ff_fail(ff_error *error, ff_status status, const char *format, ...) FF_PRINTF(3, 4);

/* Like ff_fail with FF_IO; appends ": " and the text of errno as it was at the call.
 * ENOMEM becomes FF_NO_MEMORY. Example: ff_fail_errno(error, "%s: cannot open", path). */
ff_status ff_fail_errno(ff_error *error, const char *format, ...) FF_PRINTF(2, 3);

/* Puts "text: " in front of the message already in `error`; returns error's status (or `status` if
 * error is NULL). For adding the place to a lower layer's message. */
ff_status ff_fail_within(ff_error *error, ff_status status, const char *format, ...)
    FF_PRINTF(3, 4);

/* The documented process exit code of a status. */
int ff_exit_code(const ff_error *error);

/* Evaluates `call`; returns its status from the enclosing function unless FF_OK. */
#define FF_TRY(call)                                                                               \
    do {                                                                                           \
        ff_status ff_try_status = (call);                                                          \
        if (ff_try_status != FF_OK) return ff_try_status;                                          \
    } while (0)

/* The same for functions that release what they hold at a label `done:` and return `status`: how
 * functions of several steps clean up. After a loop or a branch that keeps its status, one more
 * step may be `if (status == FF_OK) status = ...`, never two. */
#define FF_TRY_DONE(call)                                                                          \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != FF_OK) goto done;                                                            \
    } while (0)

#endif
