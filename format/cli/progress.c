#include "format/cli/progress.h"

#include "format/base/json.h"
#include "format/base/status.h"
#include "format/base/thread.h"
#include "format/cli/columns.h"
#include "format/cli/interrupt.h"
#include "format/cli/say.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDEST_BAR = 20, NARROWEST_BAR = 8 };

/* The parts of a line in addition to description and percentage or count, in the order in which
 * they are dropped. */
enum { COUNT = 1, RATE = 2, NOTE = 4, TIMES = 8, EVERYTHING = 15 };

typedef struct progress_line {
    char text[512];
    size_t length;
} progress_line;

static ff_progress_form shown_as = FF_PROGRESS_LINE;

void ff_progress_show_as(ff_progress_form form) {
    shown_as = form;
}

/* Without memory for the line, no line is printed. */
static void print_json(ff_progress *progress, uint64_t done) {
    json_t *total = progress->total ? json_integer((json_int_t)progress->total) : json_null();
    json_t *root = json_pack("{s:s, s:o, s:s, s:I, s:o}", "event", "progress", "what",
                             ff_json_text(progress->description), "unit", progress->unit, "done",
                             (json_int_t)done, "total", total);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    progress->printed = done;
    if (text) printf("%s\n", text);
    free(text);
    if (fflush(stdout) != 0) ff_interrupt_raise(SIGPIPE);
}

static bool can_rewrite(void) {
    const char *name = getenv("TERM");
    return isatty(STDERR_FILENO) && name && *name && strcmp(name, "dumb") != 0;
}

/* One column less than the terminal's width: some terminals wrap after the last column. */
static int room(void) {
    struct winsize size;
    if (!isatty(STDERR_FILENO)) return INT_MAX;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col == 0) return 79;
    return size.ws_col - 1;
}

void ff_progress_begin(ff_progress *progress, const char *description, const char *unit,
                       uint64_t total, bool quiet) {
    *progress = (ff_progress){.description = description,
                              .unit = unit,
                              .total = total,
                              .quiet = quiet || shown_as == FF_PROGRESS_NONE,
                              .form = shown_as,
                              .terminal = can_rewrite(),
                              .started_ns = ff_now_ns()};
    progress->printed_ns = progress->started_ns;
    if (!progress->quiet && progress->form == FF_PROGRESS_JSON) print_json(progress, 0);
}

FF_PRINTF(2, 3) static void add(progress_line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t left = sizeof line->text - line->length;
    int length = vsnprintf(line->text + line->length, left, format, arguments);
    va_end(arguments);
    if (length > 0) line->length += (size_t)length < left ? (size_t)length : left - 1;
}

static void add_clock(progress_line *line, double seconds) {
    unsigned whole = (unsigned)seconds;
    if (whole >= 3600) add(line, "%u:", whole / 3600);
    add(line, "%02u:%02u", whole / 60 % 60, whole % 60);
}

static void add_count(progress_line *line, const ff_progress *progress, uint64_t count) {
    if (strcmp(progress->unit, FF_PROGRESS_BYTES) == 0)
        add(line, "%s", ff_say_bytes(count).text);
    else
        add(line, "%" PRIu64, count);
}

/* The line with the parts in `shown`, and a bar of width `bar` (0 = none). */
static void compose(progress_line *line, const ff_progress *progress, uint64_t done, double seconds,
                    const char *note, int shown, int bar) {
    double rate = (double)done / seconds;
    line->length = 0;
    add(line, "%s:", progress->description);
    if (progress->total) {
        double share = (double)done / (double)progress->total;
        if (share > 1) share = 1;
        add(line, " %3.0f%%", share * 100);
        int filled = (int)(share * bar);
        if (bar) add(line, "|%.*s%*s|", filled, "####################", bar - filled, "");
        if (shown & COUNT) {
            add(line, " ");
            add_count(line, progress, done);
            add(line, "/");
            add_count(line, progress, progress->total);
        }
    } else {
        add(line, " ");
        add_count(line, progress, done);
    }
    if (shown & TIMES) {
        add(line, " [");
        add_clock(line, seconds);
        if (progress->total) add(line, "<");
        if (progress->total && rate > 0 && done <= progress->total)
            add_clock(line, (double)(progress->total - done) / rate);
        else if (progress->total)
            add(line, "?");
        if (shown & RATE)
            add(line, ", %s",
                strcmp(progress->unit, FF_PROGRESS_BYTES) == 0
                    ? ff_say_byte_rate(rate).text
                    : ff_say_rate(rate, progress->unit).text);
        add(line, "]");
    }
    if (note && shown & NOTE) add(line, " %s", note);
}

void ff_progress_update(ff_progress *progress, uint64_t done, const char *note) {
    uint64_t now = ff_now_ns();
    const bool json = progress->form == FF_PROGRESS_JSON;
    uint64_t interval_ns = json || progress->terminal ? 100000000u : 30000000000u;
    if (!progress->description) return;
    progress->done = done;
    if (progress->quiet || now - progress->printed_ns < interval_ns) return;
    progress->printed_ns = now;
    if (json) {
        print_json(progress, done);
        return;
    }
    double seconds = (double)(now - progress->started_ns) * 1e-9;
    int width = room(), shown = EVERYTHING;
    progress_line line;
    compose(&line, progress, done, seconds, note, shown, 0);
    while (ff_columns(line.text) > width && shown) {
        shown &= shown - 1; /* without the lowest bit */
        compose(&line, progress, done, seconds, note, shown, 0);
    }
    int bar = width - ff_columns(line.text) - 2;
    if (bar > WIDEST_BAR) bar = WIDEST_BAR;
    if (progress->total && shown == EVERYTHING && bar >= NARROWEST_BAR)
        compose(&line, progress, done, seconds, note, shown, bar);
    line.text[ff_columns_fit(line.text, width)] = 0;
    /* Erase to the end of the line: the previous one may have been longer. */
    fprintf(stderr, progress->terminal ? "\r%s\033[K" : "%s\n", line.text);
    fflush(stderr);
    progress->shown = true;
}

void ff_progress_end(ff_progress *progress) {
    if (progress->terminal && progress->shown) fprintf(stderr, "\r\033[K");
    if (!progress->quiet && progress->form == FF_PROGRESS_JSON &&
        progress->done != progress->printed)
        print_json(progress, progress->done);
    progress->shown = false;
}
