/* Room tools/ffpack/copy, floor 16: edits a set without its source.
 *
 * May include format, tools/ffpack/image, tools/ffpack/run, tools/ffpack/source,
 * tools/ffpack/split.
 *
 * `ffpack copy SET -o NEW`: a packed set with fewer samples, other classes or labels, or another
 * dtype, made from the set alone. Samples are copied as they are stored, with their checksums; only
 * --dtype changes their bytes. NEW is built like any packed set: in NEW.partial, then renamed.
 *
 *   keys.c      which keys a file names (format/select/where.h: which samples an expression means)
 *   choice.c the samples of a split that are copied, and their places in the copy
 *   classes.c   renamed, merged and added classes
 *   labels.c    corrected labels
 *   describe.c  the copy's metadata
 *   split.c     writes the shards */
#ifndef FF_FFPACK_COPY_H
#define FF_FFPACK_COPY_H

#include "format/cli/options.h"
#include "format/reader/history.h"
#include "tools/ffpack/split/report.h"

typedef struct ff_copy_options {
    const char *set, *output;
    const char *keys, *not_keys; /* files; NULL: all samples; at most one of them */
    const char *where;           /* an expression (format/select/where.h); NULL: all samples */
    ff_option_list rename, merge, add; /* edits of classes, made in this order */
    const char *labels;                /* a file, or NULL */
    const char *label;                 /* the field that the edits change; NULL: the only one */
    bool converts;
    ff_dtype dtype; /* the copy's dtype, if it converts */
    bool force;
    int jobs;
    ff_history_command history;
    ff_notices notices;
} ff_copy_options;

/* Copies every split of the set. FF_USAGE if NEW exists (without force), or is in the set or around
 * it. After a failure NEW is unchanged; whole shards are kept for the same command to continue. The
 * caller frees the report, after a failure too. */
FF_MUST_USE ff_status ff_copy_run(const ff_copy_options *options, ff_report *report,
                                  ff_error *error);

#endif
