/* What a run did, or would do: the summary on stdout and --json. */
#ifndef FF_FFPACK_REPORT_H
#define FF_FFPACK_REPORT_H

#include "format/writer.h"

#include <stdio.h>

typedef struct ff_report_split {
    char *directory; /* where it went */
    ff_metadata metadata;
    uint64_t items;          /* that the shards stand for: all, or the part's */
    uint64_t earlier;        /* samples of earlier generations, in result too */
    uint64_t continued;      /* items that earlier runs had packed */
    uint64_t warnings;       /* images that were odd, or cut off and filled */
    ff_writer_result result; /* a dry run: sample_count, shard_count and file_bytes only, as they
                                would be at most */
} ff_report_split;

/* Zero-initialised; owned strings. */
typedef struct ff_report {
    char *source, *output;
    const char *kind; /* static */
    bool dry_run, appended;
    ff_part part;          /* count 0 = the whole set */
    bool statistics_known; /* false in a dry run that would compute them */
    char *statistics_origin;
    size_t split_count;
    ff_report_split *split;
    double seconds;
    char *skipped_path; /* NULL where nothing was left out */
} ff_report;

/* Appends an empty split. */
FF_MUST_USE ff_status ff_report_add_split(ff_report *report, ff_report_split **split,
                                          ff_error *error);
void ff_report_free(ff_report *report);

/* A line or two a split, and the sum. */
void ff_report_print(const ff_report *report, FILE *out);

/* One JSON object on a line. */
FF_MUST_USE ff_status ff_report_json(const ff_report *report, FILE *out, ff_error *error);

#endif
