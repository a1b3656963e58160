/* The progress of long work, for people or for a program.
 *
 * For people it is a line on stderr. A terminal's line is rewritten in place, at most 10 times a
 * second, and is never wider than the terminal. If stderr is not a terminal, or TERM is "dumb" or
 * not set, a plain line is printed every 30 seconds. There are no colours, so NO_COLOR needs no
 * handling.
 *
 *     desc:  37%|####      | n/N [elapsed<left, rate unit/s] note
 *
 * In a narrow terminal the bar shrinks; then bar, n/N, rate, note and times are dropped, in this
 * order.
 *
 * For a program it is lines on stdout: the first at the beginning, then at most 10 a second, and
 * the last with the final count. Each line is a JSON object; an unknown total is null:
 *
 *     {"event":"progress","what":"packing train","unit":"items","done":256,"total":60000} */
#ifndef FF_BASE_PROGRESS_H
#define FF_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#define FF_PROGRESS_BYTES "B"

/* The words of an option --progress, in the order of the numbers below. */
#define FF_PROGRESS_CHOICES "line|json|none"

typedef enum ff_progress_form {
    FF_PROGRESS_LINE,
    FF_PROGRESS_JSON,
    FF_PROGRESS_NONE
} ff_progress_form;

/* Sets the form of all progress of the process (at first FF_PROGRESS_LINE). A main calls this
 * before it starts other threads. */
void ff_progress_show_as(ff_progress_form form);

typedef struct ff_progress {
    const char *description; /* "packing train" */
    const char *unit;        /* "samples"; FF_PROGRESS_BYTES is printed in KiB, MiB ... */
    uint64_t total;          /* 0 = unknown */
    bool quiet;              /* never print */
    /* the rest is private */
    ff_progress_form form;
    bool terminal; /* a terminal whose line can be rewritten */
    bool shown;    /* a line is shown and must be cleared */
    uint64_t started_ns, printed_ns;
    uint64_t done, printed; /* as last updated; as last printed for a program */
} ff_progress;

/* Starts the clock. The strings stay valid until ff_progress_end. One thread at a time. */
void ff_progress_begin(ff_progress *progress, const char *description, const char *unit,
                       uint64_t total, bool quiet);
/* Prints if it is time to; `note` (UTF-8, may be NULL) is appended. This function and
 * ff_progress_end accept a zeroed progress that has not begun. */
void ff_progress_update(ff_progress *progress, uint64_t done, const char *note);
/* Clears the terminal's line. For a program: prints the last number it was updated to. */
void ff_progress_end(ff_progress *progress);

#endif
