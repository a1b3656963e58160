/* Room tools/ffpack/bucket, floor 16: packed sets in object storage.
 *
 * look.c finds the sets below a URL, push.c copies a set from a folder into a bucket, pull.c copies
 * a set behind a URL into a folder.
 *
 * May include format, tools/ffpack/source.
 *
 * What lies in a bucket below a prefix. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_BUCKET_H
#define FF_FFPACK_BUCKET_H

#include "format/disk/layout.h"
#include "format/storage/storage.h"

/* A folder with files of a set. */
typedef struct ff_bucket_set {
    char *name; /* the folder below the prefix; "" = the prefix itself */
    ff_object index;
    bool has_index;
    ff_index_header header; /* if it has an index */
    uint64_t shards;        /* that are there */
    uint64_t bytes;         /* of index, shards and history */
} ff_bucket_set;

/* Zero-initialised; owns its sets, which are in the order of names. */
typedef struct ff_bucket_view {
    ff_bucket_set *set;
    size_t count, capacity;
    uint64_t others, other_bytes; /* objects that belong to no set */
} ff_bucket_view;

/* Finds all sets at and below the storage's URL, and reads the headers of their indexes.
 * FF_BAD_DATA for an index that is broken. The caller frees the view, after a failure too. */
FF_MUST_USE ff_status ff_bucket_look(ff_bucket_view *view, ff_storage *storage, ff_error *error);
void ff_bucket_view_free(ff_bucket_view *view);

/* Whether `name`, without a folder, is a file of a packed set: an index, a shard or a history.
 * *number = that of a shard, else UINT32_MAX. */
bool ff_bucket_is_ours(const char *name, uint32_t *number);

#endif
