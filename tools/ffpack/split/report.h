/* Reports what a run did, or would do: notices, the summary on stdout and --json. */
#ifndef FF_FFPACK_REPORT_H
#define FF_FFPACK_REPORT_H

#include "format/writer/writer.h"
#include "tools/ffpack/source/left_out.h"
#include "tools/ffpack/source/names.h"

#include <stdio.h>

typedef struct ff_report_split {
    char *directory; /* where it was written */
    ff_metadata metadata;
    uint64_t items;          /* the shards' items, skipped ones included: all, or the part's */
    uint64_t earlier;        /* samples of earlier generations, in result too */
    uint64_t continued;      /* items packed by earlier runs */
    bool lost_too_much;      /* more was left out than --max-skip allows */
    uint64_t clipped;        /* images with greys above 255, which became 255; by this run */
    uint64_t turned;         /* images with an EXIF orientation other than 1; by this run */
    uint64_t not_finite;     /* samples with inf or NaN; by this run */
    uint64_t warnings;       /* images that were odd, or cut off and filled */
    ff_writer_result result; /* before it was packed: sample_count, shard_count and file_bytes only,
                                as they would be at most */
} ff_report_split;

/* How statistics are computed: not at all, by a separate pass, or while packing. */
typedef enum ff_pass { FF_PASS_NONE, FF_PASS_BEFORE, FF_PASS_WHILE_PACKING } ff_pass;

/* Zero-initialised; owned strings. */
typedef struct ff_report {
    char *source, *output;
    const char *kind; /* static */
    bool dry_run, appended, copied;
    bool decoded;          /* a check has decoded all items */
    bool checked_only;     /* ffpack check: no splits are filled */
    bool kept;             /* --part auto: the part was whole already */
    bool exif;             /* --exif: images are stored upright */
    bool unchanged;        /* --if-changed: there was nothing to do */
    ff_part part;          /* count 0 = the whole set */
    bool statistics_known; /* false in a dry run that would compute them */
    char *statistics_origin;
    ff_pass pass;
    bool shares;               /* the pass is shared by the parts */
    uint64_t statistics_items; /* read by the pass, if this run made it */
    double statistics_seconds; /* the pass's, if before packing */
    uint64_t needed_bytes;     /* still to be written, at most */
    bool free_known;
    uint64_t free_bytes; /* where OUT will be */
    size_t split_count;
    ff_report_split *split;
    double seconds;
    char *built_in;           /* if `output` is a URL: the folder in which the set is built */
    bool opened;              /* OUT.partial was taken over: its content is this run's */
    uint64_t checked, broken; /* items: decoded by a check, and the broken ones among them */
    char *skipped_path;       /* NULL if nothing was left out */
    ff_left_out left_out;     /* the source's, by listing it, */
    ff_names notes;           /* and other notes about it */
    char *split_rule;         /* as the set records it; NULL without --split */
} ff_report;

/* Appends an empty split. */
FF_MUST_USE ff_status ff_report_add_split(ff_report *report, ff_report_split **split,
                                          ff_error *error);
/* Whether a run failed because more was left out than --max-skip allows. */
bool ff_report_lost_too_much(const ff_report *report);
void ff_report_free(ff_report *report);

/* A notice if the folder's file system has no locks. */
#define FF_UNLOCKED                                                                                \
    "%s: this file system has no locks, so nothing keeps a second ffpack from writing there"

/* Receives messages during a run: items left out, odd images, losses. */
typedef struct ff_notices {
    void (*tell)(void *context, const char *sentence); /* NULL: nowhere */
    /* An item that a check found broken; `reason` names it, too. NULL: nowhere. */
    void (*broken)(void *context, const char *split, const char *name, const char *reason);
    void *context;
} ff_notices;

void ff_notice(const ff_notices *notices, const char *format, ...) FF_PRINTF(2, 3);

/* Prints one or two lines per split, and the totals. */
void ff_report_print(const ff_report *report, FILE *out);

/* One JSON object on a line. */
FF_MUST_USE ff_status ff_report_json(const ff_report *report, FILE *out, ff_error *error);

#endif
