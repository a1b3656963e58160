/* Appending: whether a source fits a set, and the metadata of the result. Private to append. */
#ifndef FF_FFPACK_APPEND_MATCH_H
#define FF_FFPACK_APPEND_MATCH_H

#include "tools/ffpack/pack/append.h"
#include "tools/ffpack/run/run.h"

/* A split of the set. */
typedef struct ff_append_target {
    char *folder;
    int lock;
    bool unlocked;        /* the file system has no locks */
    ff_metadata metadata; /* the newest generation's */
    uint8_t id[16];
    uint64_t samples;
    uint32_t first_shard; /* the next generation's */
    const ff_source_split *split;
    ff_class_map map;
    char listing[33]; /* the split's, as recorded */
    bool done;        /* an interrupted append of these items has written its index */
} ff_append_target;

struct ff_append {
    char *path;
    ff_append_target *target;
    size_t count, capacity; /* after matching, those that get items, which come first */
    size_t opened;          /* all of them */
    ff_known *known;        /* the items of all its splits; NULL if they may occur again */
    bool committed;         /* the new indexes are in place */
};

/* The rule that divided the set into splits, for a source that has no splits; empty if the set
 * records no rule, or is a single split. Released by ff_split_rule_free, also after a failure. */
FF_MUST_USE ff_status ff_append_rule(const ff_append *append, ff_split_rule *rule, ff_error *error);

/* Matches the set's splits to the source's, in the source's order. FF_USAGE if one is missing;
 * splits of the set for which the rule has no items stay as they are. */
FF_MUST_USE ff_status ff_append_match_splits(ff_append *append, const ff_source *source,
                                             ff_error *error);

/* Fills at->map: the source's fields must be the set's; classes may be in another order or missing.
 * With `add` those that the set lacks are added to at->metadata. `source` is for the error message.
 * FF_USAGE naming the first difference. */
FF_MUST_USE ff_status ff_append_map_classes(ff_append_target *at, const ff_metadata *labels,
                                            const char *source, bool add, ff_error *error);

/* The next generation's metadata: the set's, with more items and their provenance. FF_USAGE if
 * packing the source alone would produce other samples than the set's. Fills at->listing. */
FF_MUST_USE ff_status ff_append_describe(const ff_run *job, ff_append_target *at, ff_metadata *next,
                                         ff_error *error);

/* The listing recorded by the set's newest generation; "" without one. */
const char *ff_append_recorded_listing(const ff_metadata *metadata);

#endif
