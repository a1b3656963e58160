#include "format/base/progress.h"

#include "format/base/thread.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void ff_progress_begin(ff_progress *progress, const char *description, const char *unit,
                       uint64_t total, bool quiet) {
    *progress = (ff_progress){.description = description,
                              .unit = unit,
                              .total = total,
                              .quiet = quiet,
                              .terminal = isatty(STDERR_FILENO),
                              .started_ns = ff_now_ns()};
    progress->printed_ns = progress->started_ns;
}

static int clock_text(char *text, size_t size, double seconds) {
    unsigned whole = (unsigned)seconds;
    if (whole >= 3600)
        return snprintf(text, size, "%u:%02u:%02u", whole / 3600, whole / 60 % 60, whole % 60);
    return snprintf(text, size, "%02u:%02u", whole / 60, whole % 60);
}

void ff_progress_update(ff_progress *progress, uint64_t done, const char *note) {
    uint64_t now = ff_now_ns();
    uint64_t interval_ns = progress->terminal ? 100000000u : 30000000000u;
    if (progress->quiet || now - progress->printed_ns < interval_ns) return;
    progress->printed_ns = now;
    double seconds = (double)(now - progress->started_ns) * 1e-9;
    double rate = (double)done / seconds;
    char elapsed[32], left[32] = "?", line[256];
    clock_text(elapsed, sizeof elapsed, seconds);
    int length;
    if (progress->total) {
        double share = (double)done / (double)progress->total;
        if (share > 1) share = 1;
        if (rate > 0 && done <= progress->total)
            clock_text(left, sizeof left, (double)(progress->total - done) / rate);
        char bar[21] = "                    ";
        memset(bar, '#', (size_t)(share * 20));
        length = snprintf(line, sizeof line,
                          "%s: %3.0f%%|%s| %" PRIu64 "/%" PRIu64 " [%s<%s, %.4g %s/s]%s%s",
                          progress->description, share * 100, bar, done, progress->total, elapsed,
                          left, rate, progress->unit, note ? " " : "", note ? note : "");
    } else {
        length = snprintf(line, sizeof line, "%s: %" PRIu64 " [%s, %.4g %s/s]%s%s",
                          progress->description, done, elapsed, rate, progress->unit,
                          note ? " " : "", note ? note : "");
    }
    if (length < 0) return;
    if (progress->terminal) {
        int fill = progress->printed_width > length ? progress->printed_width - length : 0;
        fprintf(stderr, "\r%s%*s", line, fill, "");
        progress->printed_width = length;
    } else {
        fprintf(stderr, "%s\n", line);
    }
    fflush(stderr);
}

void ff_progress_end(ff_progress *progress) {
    if (progress->terminal && progress->printed_width)
        fprintf(stderr, "\r%*s\r", progress->printed_width, "");
    progress->printed_width = 0;
}
