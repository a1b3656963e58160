/* Packs one split: the samples of its items, in storage order, into blocks and shards. */
#ifndef FF_FFPACK_PACK_SPLIT_H
#define FF_FFPACK_PACK_SPLIT_H

#include "tools/ffpack/image/transform.h"
#include "tools/ffpack/pack.h"
#include "tools/ffpack/sample.h"
#include "tools/ffpack/skipped.h"

/* Class numbers of the source as numbers of the set that it is appended to. */
typedef struct ff_class_map {
    int64_t **to; /* [field_count]: [number], or NULL where they are the same */
    uint32_t *count;
} ff_class_map;

typedef struct ff_pack_split {
    const ff_settings *settings;
    const ff_notices *options;
    const ff_sample_plan *plan;
    const ff_source_split *split;
    const ff_transform *transform;
    const ff_part *part;         /* to pack; NULL = all of it */
    const ff_class_map *classes; /* NULL = the source's numbers */
    bool shards_only;            /* leave the index to the caller */
    /* Not NULL: empty, and filled with the sums of all samples; the metadata stands in for one with
     * the mean and std that follow from them, and shards are left pending (format/pending.h). */
    ff_stats *sums;
    const char *directory; /* to build it in */
    const char *partial;   /* OUT.partial, which it is or lies in */
    ff_skipped *skipped;
    ff_report_split *report; /* its metadata is filled; the rest is filled here */
} ff_pack_split;

/* Goes on after the whole shards that lie in the folder. Commits shards and index. */
FF_MUST_USE ff_status ff_pack_split_run(const ff_pack_split *job, ff_error *error);

#endif
