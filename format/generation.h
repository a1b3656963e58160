/* Generations: what `ffpack append` adds to a set (FORMAT.md, "Generations"). Every generation has
 * shards of its own after those of the earlier ones, with items numbered on. The metadata of the
 * newest one names the earlier ones, so that their shards stay as they are. Thread rule: pure. */
#ifndef FF_FORMAT_GENERATION_H
#define FF_FORMAT_GENERATION_H

#include "format/metadata.h"

#define FF_SHARDS_LIMIT 1000000u

/* Where a shard belongs. A generation's positions and items have the same range. */
typedef struct ff_shard_place {
    uint32_t generation;
    uint64_t first_position, position_count;
    uint64_t first_item, end_item; /* of its generation */
} ff_shard_place;

/* Shards of all generations, and those of the earlier ones alone: so the newest one's first. */
uint32_t ff_metadata_shard_count(const ff_metadata *metadata);
uint32_t ff_metadata_first_shard(const ff_metadata *metadata);

/* Items of the earlier generations: so the newest one's first. */
uint64_t ff_metadata_first_item(const ff_metadata *metadata);

/* The place of shard `number` < ff_metadata_shard_count. */
ff_shard_place ff_metadata_shard_place(const ff_metadata *metadata, uint32_t number);

/* Makes `metadata`, the set's own, whose text has this id, the next generation with `items` more
 * items. Its provenance is as it was, to be added to. */
FF_MUST_USE ff_status ff_metadata_append(ff_metadata *metadata, const uint8_t id[16],
                                         uint64_t items, ff_error *error);

/* Whether `older`, whose text has this id, is the generation that `newer` says it is: the same in
 * everything but items, later generations, later provenance, and the largest sides where sizes
 * vary. FF_BAD_DATA naming the first difference; `what` is for the sentence. */
FF_MUST_USE ff_status ff_metadata_continues(const ff_metadata *older, const uint8_t id[16],
                                            const ff_metadata *newer, const char *what,
                                            ff_error *error);

/* The part of ff_metadata_check that is about generations and the number of shards. */
FF_MUST_USE ff_status ff_generations_check(const ff_metadata *metadata, ff_error *error);

#endif
