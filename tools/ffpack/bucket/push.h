/* `ffpack push`: a set from a folder into a bucket.
 *
 * The shards come first, then the histories, the indexes last, the index of train after all others:
 * until then readers find no set, and fftrain finds no training set. If an earlier generation of
 * the set is there (format/disk/generation.h), readers find that one until then: its shards are the
 * first ones of this set, and stay as they are. Files that are there with the same bytes (by size
 * and MD5) are not sent again, so the same command continues after a failure. */
#ifndef FF_FFPACK_PUSH_H
#define FF_FFPACK_PUSH_H

#include "format/storage/storage.h"

typedef struct ff_push_options {
    const char *folder, *url;
    bool force; /* replace another set that is there */
    int jobs;   /* requests at the same time */
    ff_storage_options storage;
    void (*tell)(const char *sentence); /* prints a notice */
} ff_push_options;

typedef struct ff_push_report {
    uint64_t files, bytes;     /* of the set */
    uint64_t sent, sent_bytes; /* by this run */
    uint64_t removed;          /* objects of the set that was replaced */
} ff_push_report;

/* FF_USAGE if the folder is not a whole set, or if another set is there without `force`, which is
 * not an earlier generation of this one. After a failure no reader sees a set with a part of the
 * files. */
FF_MUST_USE ff_status ff_push_run(const ff_push_options *options, ff_push_report *report,
                                  ff_error *error);

#endif
