/* What is left of a split, judged by its shards. Private to repairing. */
#ifndef FF_FFPACK_REPAIR_SPLIT_H
#define FF_FFPACK_REPAIR_SPLIT_H

#include "format/shard.h"

/* Samples of a shard that cannot be had: slots first .. first + count - 1. */
typedef struct ff_lost_slots {
    uint64_t first, count;
    char *reason;
} ff_lost_slots;

typedef struct ff_shard_state {
    bool missing;
    char *broken; /* why its structure is; NULL where it is sound */
    ff_lost_slots *lost;
    size_t lost_count, lost_capacity;
} ff_shard_state;

/* Zero-initialised; released with ff_survey_free. */
typedef struct ff_survey {
    const char *folder;
    ff_buffer text; /* the metadata of the generation that counts */
    ff_metadata metadata;
    bool committed; /* the index said so */
    uint32_t shard_count;
    ff_shard_state *shard; /* [shard_count] */
    uint32_t beyond;       /* shards of a generation that does not count */
} ff_survey;

/* Finds the generation that counts and checks its shards on `jobs` threads. FF_BAD_DATA where no
 * shard tells what the set is. */
FF_MUST_USE ff_status ff_survey_make(ff_survey *survey, const char *folder, int jobs,
                                     ff_error *error);
bool ff_survey_is_whole(const ff_survey *survey);
void ff_survey_free(ff_survey *survey);

#endif
