/* Generations: what `ffpack append` adds to a set (FORMAT.md, "Generations"). Each generation's
 * shards follow those of the earlier generations; item numbers continue. The newest generation's
 * metadata names the earlier ones, so their shards stay unchanged. Thread rule: pure. */
#ifndef FF_FORMAT_GENERATION_H
#define FF_FORMAT_GENERATION_H

#include "format/disk/metadata.h"

#define FF_SHARDS_LIMIT 1000000u

/* Where a shard belongs. A generation's positions and items have the same range. */
typedef struct ff_shard_place {
    uint32_t generation;
    uint64_t first_position, position_count;
    uint64_t first_item, end_item; /* range of its generation's items */
} ff_shard_place;

/* The number of shards of all generations, and of the earlier ones only (the number of the newest
 * generation's first shard). */
uint32_t ff_metadata_shard_count(const ff_metadata *metadata);
uint32_t ff_metadata_first_shard(const ff_metadata *metadata);

/* The number of items of the earlier generations (the newest generation's first item). */
uint64_t ff_metadata_first_item(const ff_metadata *metadata);

/* The place of shard `number` < ff_metadata_shard_count. */
ff_shard_place ff_metadata_shard_place(const ff_metadata *metadata, uint32_t number);

/* Turns `metadata`, the set's, whose text has this id, into the next generation's metadata, with
 * `items` more items. The provenance is unchanged; the caller adds to it. */
FF_MUST_USE ff_status ff_metadata_append(ff_metadata *metadata, const uint8_t id[16],
                                         uint64_t items, ff_error *error);

/* Checks that `older`, whose text has this id, is the earlier generation that `newer` names. Both
 * must be equal except for items, later generations, later provenance, classes added after the
 * earlier ones and, if sizes vary, the largest sides. FF_BAD_DATA naming the first difference;
 * `what` is for the error message. */
FF_MUST_USE ff_status ff_metadata_continues(const ff_metadata *older, const uint8_t id[16],
                                            const ff_metadata *newer, const char *what,
                                            ff_error *error);

/* The part of ff_metadata_check that concerns generations and the number of shards. */
FF_MUST_USE ff_status ff_generations_check(const ff_metadata *metadata, ff_error *error);

#endif
