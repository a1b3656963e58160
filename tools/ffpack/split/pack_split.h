/* Room tools/ffpack/split, floor 14: packs the items of one split.
 *
 * pipeline.c shares work among threads. sample.c turns an item into a sample, array_sample.c an
 * item of an array. pack_split.c takes the samples in storage order and writes them; known.c finds
 * the samples of an interrupted run. measure.c and content.c read items without packing them.
 * skipped.c, emptied.c and item_notes.c keep what was left out or noticed; report.c prints it.
 *
 * May include format, loader/sequence, tools/ffpack/decode, tools/ffpack/image,
 * tools/ffpack/settings, tools/ffpack/source.
 *
 * Packs one split: the samples of its items, in storage order, into blocks and shards. */
#ifndef FF_FFPACK_PACK_SPLIT_H
#define FF_FFPACK_PACK_SPLIT_H

#include "tools/ffpack/image/transform.h"
#include "tools/ffpack/settings/settings.h"
#include "tools/ffpack/split/class_map.h"
#include "tools/ffpack/split/known.h"
#include "tools/ffpack/split/report.h"
#include "tools/ffpack/split/sample.h"
#include "tools/ffpack/split/skipped.h"

typedef struct ff_pack_split {
    const ff_settings *settings;
    const ff_notices *options;
    const ff_sample_plan *plan;
    const ff_source_split *split;
    const ff_transform *transform;
    const ff_part *part;         /* to pack; NULL = the whole split */
    const ff_class_map *classes; /* to the numbers of the set appended to; NULL = they stay */
    const ff_known *known;       /* refused items; NULL = none */
    bool shards_only;            /* leave the index to the caller */
    /* If not NULL: where to leave the writer after its last block. The caller commits the last
     * shard and the index, and closes it, also after a failure. Not of a part. */
    ff_writer **rest;
    /* The metadata is the stand-in for one with the mean and std of samples that are being packed,
     * and shards are left pending (format/writer/pending.h). A part ends in this state, and the
     * merge completes it; otherwise the caller completes the shards. */
    bool pending;
    ff_stats
        *sums; /* with `pending`, if not NULL: empty, and filled with the sums of all samples */
    const char *directory; /* to build it in */
    const char *partial;   /* OUT.partial: `directory` or its parent */
    /* Called for each whole shard in the folder, an earlier run's first; NULL = never. */
    ff_status (*committed)(void *context, const char *directory, const char *split, uint32_t number,
                           ff_error *error);
    void *context;
    ff_skipped *skipped;
    ff_report_split *report; /* its metadata is filled; the rest is filled here */
} ff_pack_split;

/* Continues after the whole shards in the folder. Commits shards and index; of a part, also the
 * sums (part_sums.h). */
FF_MUST_USE ff_status ff_pack_split_run(const ff_pack_split *job, ff_error *error);

/* The number of blocks that `jobs` workers have in memory: their own, the ones made ahead, and the
 * one that is being written. */
size_t ff_pack_slot_count(const ff_metadata *metadata, uint64_t jobs);

/* Adds to a failed ff_writer_open of OUT.partial what the user can do. */
void ff_pack_hint_start_over(ff_status opened, const char *partial, ff_error *error);

#endif
