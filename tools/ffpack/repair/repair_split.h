/* What is left of a split, according to its shards. Private to repairing. */
#ifndef FF_FFPACK_REPAIR_SPLIT_H
#define FF_FFPACK_REPAIR_SPLIT_H

#include "format/disk/shard.h"

/* Unreadable samples of a shard: slots first .. first + count - 1. */
typedef struct ff_lost_slots {
    uint64_t first, count;
    char *reason;
} ff_lost_slots;

typedef struct ff_shard_state {
    bool missing;
    char *broken; /* why its structure is broken; NULL = intact */
    ff_lost_slots *lost;
    size_t lost_count, lost_capacity;
} ff_shard_state;

/* Zero-initialised; released with ff_survey_free. */
typedef struct ff_survey {
    const char *folder;
    ff_buffer text; /* the metadata of the chosen generation */
    ff_metadata metadata;
    bool committed; /* from the index */
    uint32_t shard_count;
    ff_shard_state *shard; /* [shard_count] */
    uint32_t beyond;       /* shards of later generations */
} ff_survey;

/* Chooses the generation and checks its shards on `jobs` threads. FF_BAD_DATA if no shard describes
 * the set. */
FF_MUST_USE ff_status ff_survey_make(ff_survey *survey, const char *folder, int jobs,
                                     ff_error *error);
bool ff_survey_is_whole(const ff_survey *survey);
void ff_survey_free(ff_survey *survey);

#endif
