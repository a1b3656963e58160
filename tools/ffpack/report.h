/* What a run did, or would do: notices, the summary on stdout and --json. */
#ifndef FF_FFPACK_REPORT_H
#define FF_FFPACK_REPORT_H

#include "format/writer.h"
#include "tools/ffpack/source/left_out.h"
#include "tools/ffpack/source/names.h"

#include <stdio.h>

typedef struct ff_report_split {
    char *directory; /* where it went */
    ff_metadata metadata;
    uint64_t items;          /* that the shards stand for: all, or the part's */
    uint64_t earlier;        /* samples of earlier generations, in result too */
    uint64_t continued;      /* items that earlier runs had packed */
    uint64_t warnings;       /* images that were odd, or cut off and filled */
    ff_writer_result result; /* before it was packed: sample_count, shard_count and file_bytes only,
                                as they would be at most */
} ff_report_split;

/* How statistics are computed: not at all, by a pass of their own, or at no cost. */
typedef enum ff_pass { FF_PASS_NONE, FF_PASS_BEFORE, FF_PASS_WHILE_PACKING } ff_pass;

/* Zero-initialised; owned strings. */
typedef struct ff_report {
    char *source, *output;
    const char *kind; /* static */
    bool dry_run, appended;
    ff_part part;          /* count 0 = the whole set */
    bool statistics_known; /* false in a dry run that would compute them */
    char *statistics_origin;
    ff_pass pass;
    uint64_t statistics_items; /* that the pass looks at */
    double statistics_seconds; /* that it took, where it came before packing */
    uint64_t needed_bytes;     /* that the run has yet to write, at most */
    bool free_known;
    uint64_t free_bytes; /* where OUT is to be */
    size_t split_count;
    ff_report_split *split;
    double seconds;
    char *skipped_path;   /* NULL where nothing was left out */
    ff_left_out left_out; /* of the source by listing it, */
    ff_names notes;       /* and what else is to be said of it */
} ff_report;

/* Appends an empty split. */
FF_MUST_USE ff_status ff_report_add_split(ff_report *report, ff_report_split **split,
                                          ff_error *error);
void ff_report_free(ff_report *report);

/* Where sentences go that are said before the end: of items left out, odd images, what is lost. */
typedef struct ff_notices {
    void (*tell)(void *context, const char *sentence); /* NULL: nowhere */
    void *context;
} ff_notices;

void ff_notice(const ff_notices *notices, const char *format, ...) FF_PRINTF(2, 3);

/* A line or two a split, and the sum. */
void ff_report_print(const ff_report *report, FILE *out);

/* One JSON object on a line. */
FF_MUST_USE ff_status ff_report_json(const ff_report *report, FILE *out, ff_error *error);

#endif
