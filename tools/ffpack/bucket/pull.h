/* `ffpack pull`: a set behind a URL into a folder. */
#ifndef FF_FFPACK_PULL_H
#define FF_FFPACK_PULL_H

#include "format/storage/storage.h"

typedef struct ff_pull_options {
    const char *url, *folder;
    bool force; /* replace the folder if it exists */
    int jobs;   /* shards at the same time */
    ff_storage_options storage;
} ff_pull_options;

typedef struct ff_pull_report {
    uint64_t files, bytes;  /* of the set */
    uint64_t fetched_bytes; /* by this run */
} ff_pull_report;

/* Fetches into FOLDER.partial (format/writer/output.h), verifies every byte, and renames it. Shards
 * that an earlier run fetched are kept if the index names them. FF_BAD_DATA if a file is broken: it
 * is removed, so that the next run fetches it again. */
FF_MUST_USE ff_status ff_pull_run(const ff_pull_options *options, ff_pull_report *report,
                                  ff_error *error);

#endif
