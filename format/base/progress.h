/* The progress line: on stderr, only on a terminal, at most 10 a second; elsewhere a plain line
 * every 30 seconds. `desc:  37%|###   | n/N [elapsed<eta, rate] note`. */
#ifndef FF_BASE_PROGRESS_H
#define FF_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ff_progress {
    const char *description; /* "packing train" */
    const char *unit;        /* "img" */
    uint64_t total;          /* 0 = unknown */
    bool quiet;              /* never print */
    /* the rest is private */
    bool terminal;
    uint64_t started_ns, printed_ns;
    int printed_width;
} ff_progress;

/* Starts the clock. The strings stay valid until ff_progress_end. One thread at a time. */
void ff_progress_begin(ff_progress *progress, const char *description, const char *unit,
                       uint64_t total, bool quiet);
/* Prints where it is time to; `note` (may be NULL) is appended. */
void ff_progress_update(ff_progress *progress, uint64_t done, const char *note);
/* Clears the line from a terminal. */
void ff_progress_end(ff_progress *progress);

#endif
