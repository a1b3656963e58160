/* A progress line for test_terminal.py: progress_line SECONDS DESCRIPTION UNIT TOTAL [NOTE
 * [json|none]]; half of TOTAL is done at the end (of 0, unknown, a million). */
#include "format/base/thread.h"
#include "format/cli/progress.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    const double seconds = atof(argv[1]);
    const uint64_t total = strtoull(argv[4], NULL, 10), half = (total ? total : 2000000) / 2;
    const uint64_t began = ff_now_ns();
    ff_progress line;
    if (argc > 6)
        ff_progress_show_as(strcmp(argv[6], "json") ? FF_PROGRESS_NONE : FF_PROGRESS_JSON);
    ff_progress_begin(&line, argv[2], argv[3], total, false);
    for (double at = 0; at < seconds; at = (double)(ff_now_ns() - began) * 1e-9) {
        ff_progress_update(&line, (uint64_t)((double)half * at / seconds),
                           argc > 5 ? argv[5] : NULL);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    ff_progress_end(&line);
    return 0;
}
