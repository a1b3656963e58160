/* Checks every byte of one shard, without an index: used for verifying and for repairing a set.
 * Thread rule: shards may be checked concurrently; the callbacks are called on the caller's
 * thread. */
#ifndef FF_FORMAT_SHARD_CHECK_H
#define FF_FORMAT_SHARD_CHECK_H

#include "format/disk/shard.h"

typedef struct ff_shard_check {
    const ff_metadata *metadata; /* the metadata of the set's newest generation */
    uint8_t metadata_id[16];     /* of the metadata's text */
    /* The samples of slots first .. first + count - 1 are unreadable; the check continues. */
    void (*broken)(void *context, uint64_t first, uint64_t count, const ff_error *problem);
    bool (*tick)(void *context); /* called regularly; false: stop; NULL = none */
    void *context;
} ff_shard_check;

/* FF_OK even if samples are broken; fails if the shard's structure is broken. FF_INTERRUPTED if
 * `tick` stopped the check. */
FF_MUST_USE ff_status ff_shard_check_run(const ff_shard_check *check, const ff_shard *shard,
                                         ff_error *error);

/* The record of a slot < the shard's sample count; FF_BAD_DATA if reserved bytes are not zero. */
FF_MUST_USE ff_status ff_shard_record(const ff_shard *shard, uint64_t slot, ff_entry *entry,
                                      ff_error *error);

#endif
