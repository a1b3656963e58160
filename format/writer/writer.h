/* Room format/writer, floor 4: from encoded samples to a set that appears at once.
 *
 * Threads encode samples into blocks (block.h), this header writes blocks into shards, and index.h
 * builds the index from them; buffers.h makes its many small pieces of files few reads and writes.
 * pending.h holds shards whose mean and std are still unknown; output.h is the folder of the run,
 * renamed into place when it is whole. recorded.h finds the options with which a set was packed.
 *
 * May include format/base, format/cli, format/disk, format/reader, format/storage.
 *
 * Writes one split: blocks in, shards and an index out, each committed atomically.
 *
 * A shard is written as `shard-000000.ffs.tmp`, synced and renamed, and its folder is synced,
 * before the next shard begins; the index comes last, in the same way. So the folder holds only
 * whole shards at any time, and a writer opened on it again continues after the last of them.
 * Thread rule: one thread at a time. */
#ifndef FF_FORMAT_WRITER_H
#define FF_FORMAT_WRITER_H

#include "format/disk/part.h"
#include "format/writer/block.h"

typedef struct ff_writer ff_writer;

typedef struct ff_writer_result {
    uint64_t sample_count;
    uint64_t shard_count;
    uint64_t file_bytes; /* total of all shards and the index */
    uint8_t content_id[16], transform_id[16], source_id[16];
} ff_writer_result;

/* Opens the existing folder `directory` for the split that `metadata` (copied) describes: for the
 * shards of its newest generation, or for a part of them (NULL = all; copied). Whole shards that
 * exist already must have the same metadata: otherwise FF_USAGE, naming the first difference.
 * Left-over .tmp files are removed. */
FF_MUST_USE ff_status ff_writer_open(ff_writer **writer, const char *directory,
                                     const ff_metadata *metadata, const ff_part *part,
                                     ff_error *error);

/* The same, but shards are left pending (format/writer/pending.h): `metadata` is the stand-in for
 * metadata with another mean and std. The shards of a part are completed when the part is merged.
 * Without `part`, ff_writer_commit is not called: after the last block the caller closes the
 * writer, ff_pending_complete completes the shards, and a writer opened on them commits. */
FF_MUST_USE ff_status ff_writer_open_pending(ff_writer **writer, const char *directory,
                                             const ff_metadata *metadata, const ff_part *part,
                                             ff_error *error);

/* The first sets the note (copied) that is stored with each pending shard finished from now on. The
 * second returns the note of the last pending shard found (empty if there was none; owned by the
 * writer). */
FF_MUST_USE ff_status ff_writer_set_note(ff_writer *writer, const ff_buffer *note, ff_error *error);
const ff_buffer *ff_writer_note_found(const ff_writer *writer);

/* This writer's first block, its first block that is not yet in a whole shard, and the block after
 * its last. Block numbers count from the generation's first position. */
uint64_t ff_writer_first_block(const ff_writer *writer);
uint64_t ff_writer_next_block(const ff_writer *writer);
uint64_t ff_writer_end_block(const ff_writer *writer);

/* Appends the sealed block of number ff_writer_next_block(); if it is the last block of a shard,
 * but not of the writer, commits the shard. After a failure the writer can only be closed. */
FF_MUST_USE ff_status ff_writer_append(ff_writer *writer, const ff_block *block, ff_error *error);

/* After the last block: commits the last shard, unless that was done before. */
FF_MUST_USE ff_status ff_writer_end(ff_writer *writer, ff_error *error);

/* After the last block: ends the writer, then writes and commits the index from the shards
 * (format/writer/index.h); FF_BAD_DATA if no sample was added. For a part it commits part.ffp
 * instead; the result then counts the part's shards and has no ids. */
FF_MUST_USE ff_status ff_writer_commit(ff_writer *writer, ff_writer_result *result,
                                       ff_error *error);

/* Closes the writer. An unfinished shard's .tmp is removed, whole shards stay. NULL is accepted. */
void ff_writer_close(ff_writer **writer);

#endif
