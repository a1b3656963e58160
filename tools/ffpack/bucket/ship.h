/* Packing into a bucket: `ffpack SOURCE -o s3://bucket/set`.
 *
 * The set is built in a folder as always (OUT.partial, in the cache's folder). Threads send each
 * shard that is committed there, and then only its ends stay on the disk (sent.h): the folder holds
 * few whole shards at any time. The index is built from the ends; ff_push_run sends it last. */
#ifndef FF_FFPACK_SHIP_H
#define FF_FFPACK_SHIP_H

#include "format/disk/part.h"
#include "format/storage/storage.h"

typedef struct ff_ship ff_ship;

typedef struct ff_ship_options {
    const char *url;
    const char *partial;      /* OUT.partial, locked by the caller */
    const char *const *split; /* names of the splits; "" = a single one */
    size_t splits;
    const ff_part *part; /* the part that is packed; count 0 = the whole set */
    bool force;          /* replace another set that is there: from now on readers find none */
    ff_storage_options storage;
    void (*tell)(void *context, const char *sentence); /* prints a notice */
    void *context;
} ff_ship_options;

/* The folder in which a set for this URL is built, allocated: CACHE/packing-ID/set, or part-I-of-N
 * for a part (NULL, or count 0: the whole set), whose parent is
 * made if it does not exist. FF_USAGE for a URL that cannot be written. */
FF_MUST_USE ff_status ff_ship_place(char **output, const char *url, const ff_part *part,
                                    ff_error *error);

/* Looks what the bucket has: FF_USAGE if another set is there without `force`. Shards that an
 * earlier run sent and that are lost are removed from OUT.partial, to be packed again. The options
 * must outlive the ship. */
FF_MUST_USE ff_status ff_ship_open(ff_ship **ship, const ff_ship_options *options, ff_error *error);
/* Sends the shard `number` of DIRECTORY, a split's folder in OUT.partial, unless it was sent. Waits
 * while too many wait for their turn. Fails with the first failure of any shard. */
FF_MUST_USE ff_status ff_ship_shard(ff_ship *ship, const char *directory, const char *split,
                                    uint32_t number, ff_error *error);
#define FF_SKIPPED_OBJECT "skipped.tsv" /* below the URL: the items left out */
/* Waits until all are sent; sends the list of items left out (`skipped`, a path that may not exist)
 * and, last, the indexes, or the records of a part. */
FF_MUST_USE ff_status ff_ship_finish(ff_ship *ship, const char *skipped, ff_error *error);
/* Waits for the shards that are being sent. NULL is accepted. */
void ff_ship_close(ff_ship **ship);

#endif
