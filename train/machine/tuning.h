/* Collects, for the report, how a GPU's engines were chosen and the notes of its libraries, from
 * opening the machine on. Shows a progress line on stderr while engines are compiled and timed
 * (format/cli/progress.h). Zero-initialised, except `quiet`. Thread rule: one thread. */
#ifndef FF_TRAIN_TUNING_H
#define FF_TRAIN_TUNING_H

#include "format/base/memory.h"
#include "format/cli/progress.h"
#include "train/compute/cuda/library.h"

#include <stdio.h>

typedef struct ff_tuning {
    bool quiet;               /* no line on stderr */
    ff_library_tuning counts; /* of all libraries that received it */
    ff_buffer notes;          /* one line each, no duplicates */
    ff_progress progress;
    bool shown;
} ff_tuning;

/* For ff_library_options: `context` is the ff_tuning. `line` may be empty or hold several lines. */
void ff_tuning_note(void *context, const char *line);
void ff_tuning_progress(void *context, const ff_library_tuning *counts);

/* Call when everything is planned; clears the line. */
void ff_tuning_end(ff_tuning *tuning);
/* Prints "engines ..." if any were chosen, then the notes. */
void ff_tuning_print(FILE *out, const ff_tuning *tuning);
void ff_tuning_release(ff_tuning *tuning);

#endif
