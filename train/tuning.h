/* What choosing a GPU's engines comes to, and what its libraries have to say, kept from the opening
 * of the machine on for whoever reports; and the line on stderr while engines are compiled and
 * timed (format/base/progress.h). Zero-initialised but for `quiet`. Thread rule: one thread. */
#ifndef FF_TRAIN_TUNING_H
#define FF_TRAIN_TUNING_H

#include "format/base/memory.h"
#include "format/base/progress.h"
#include "train/cuda/library.h"

#include <stdio.h>

typedef struct ff_tuning {
    bool quiet;               /* no line on stderr */
    ff_library_tuning counts; /* of every library that it was given to */
    ff_buffer notes;          /* a line each, none twice */
    ff_progress progress;
    bool shown;
} ff_tuning;

/* For ff_library_options: `context` is the ff_tuning. Several lines, or none, are notes, too. */
void ff_tuning_note(void *context, const char *line);
void ff_tuning_progress(void *context, const ff_library_tuning *counts);

/* All was planned: clears the line. */
void ff_tuning_end(ff_tuning *tuning);
/* "engines ..." where any were chosen, then the notes. */
void ff_tuning_print(FILE *out, const ff_tuning *tuning);
void ff_tuning_release(ff_tuning *tuning);

#endif
