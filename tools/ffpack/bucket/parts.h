/* The parts of a set in a bucket (`ffpack SOURCE -o s3://bucket/set --part I/N`).
 *
 * A part's shards lie where the set's will lie: nothing in them depends on other parts. Next to
 * them each split has the part's record, part-I-of-N.ffp (its part.ffp), and its history. Merging
 * builds the index from the ends of all shards, fetched into local stand-ins of the parts; no
 * sample is moved. Without an index no reader finds the set. */
#ifndef FF_FFPACK_BUCKET_PARTS_H
#define FF_FFPACK_BUCKET_PARTS_H

#include "format/disk/part.h"
#include "tools/ffpack/bucket/target.h"

/* Sends the record of a part whose shards were sent, from OUT.partial: the lists of what was left
 * out (`skipped`: OUT.skipped.tsv, and OUT.skipped.json next to it; they may not exist), histories,
 * and part.ffp last. FF_IO if one of the shards is no longer there. `target` says which splits, and
 * is looked at again. */
FF_MUST_USE ff_status ff_parts_send(ff_target *target, const char *partial, const ff_part *part,
                                    const char *skipped, ff_error *error);

typedef struct ff_bucket_object {
    char *name;
    ff_object object;
} ff_bucket_object;

/* Zero-initialised except for the storage, which is the caller's. */
typedef struct ff_bucket_parts {
    ff_storage *storage;
    ff_bucket_object *object; /* shards and records, in the order of names */
    size_t count, capacity;
    char **folder; /* the stand-ins, PLACE/part-I-of-N */
    size_t folders, folder_capacity;
} ff_bucket_parts;

/* Fetches the records, and the ends of the shards that they name, into `place`. FF_USAGE if there
 * is no part. A shard that is missing is missing in the stand-in. */
FF_MUST_USE ff_status ff_parts_fetch(ff_bucket_parts *parts, const char *place, int jobs,
                                     ff_error *error);
/* NULL = there is no such object. */
const ff_object *ff_parts_find(const ff_bucket_parts *parts, const char *name);
/* Removes the records, once the set has its index. */
FF_MUST_USE ff_status ff_parts_remove(const ff_bucket_parts *parts, ff_error *error);
void ff_parts_free(ff_bucket_parts *parts);

#endif
