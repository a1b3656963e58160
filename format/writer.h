/* Writes one split: blocks in, shards and an index out, each committed atomically.
 *
 * A shard is written as `shard-000000.ffs.tmp`, synced, renamed and its folder synced, before the
 * next begins; the index comes last, in the same way. So at any instant the folder holds only whole
 * shards, and a writer that is opened again on it goes on after the last of them.
 * Thread rule: one thread at a time. */
#ifndef FF_FORMAT_WRITER_H
#define FF_FORMAT_WRITER_H

#include "format/block.h"
#include "format/part.h"

typedef struct ff_writer ff_writer;

typedef struct ff_writer_result {
    uint64_t sample_count;
    uint64_t shard_count;
    uint64_t file_bytes; /* of all shards and the index */
    uint8_t content_id[16], transform_id[16], source_id[16];
} ff_writer_result;

/* Opens the existing folder `directory` for the split that `metadata` describes (copied): for the
 * shards of its newest generation, or a part of them (NULL = all; copied). Whole shards that lie
 * there already must have the same metadata: otherwise FF_USAGE, naming the first difference.
 * Left-over .tmp files are removed. */
FF_MUST_USE ff_status ff_writer_open(ff_writer **writer, const char *directory,
                                     const ff_metadata *metadata, const ff_part *part,
                                     ff_error *error);

/* The same for all shards, which are left pending (format/pending.h): `metadata` stands in for one
 * with another mean and std. There is nothing to commit then: after the last block the writer is
 * closed, ff_pending_complete completes the shards, and a writer opened on them commits. */
FF_MUST_USE ff_status ff_writer_open_pending(ff_writer **writer, const char *directory,
                                             const ff_metadata *metadata, ff_error *error);

/* What is kept beside each pending shard that is completed by a block appended from now on (owned
 * by the caller, read then), and what lies beside the last one that was found (empty where there
 * was none; the writer's). */
void ff_writer_set_note(ff_writer *writer, const ff_buffer *note);
const ff_buffer *ff_writer_note_found(const ff_writer *writer);

/* Blocks are numbered from the generation's first position on. The first one that this writer is to
 * write, the first of these that is not yet in a whole shard, and the one after the last. */
uint64_t ff_writer_first_block(const ff_writer *writer);
uint64_t ff_writer_next_block(const ff_writer *writer);
uint64_t ff_writer_end_block(const ff_writer *writer);

/* Appends the sealed block of number ff_writer_next_block(); commits the shard when it is the
 * shard's last. After a failure the writer can only be closed. */
FF_MUST_USE ff_status ff_writer_append(ff_writer *writer, const ff_block *block, ff_error *error);

/* After the last block: writes and commits the index from the shards (format/index.h), FF_BAD_DATA
 * where no sample at all was added; for a part its part.ffp instead, with a result that counts the
 * part's shards and has no ids. */
FF_MUST_USE ff_status ff_writer_commit(ff_writer *writer, ff_writer_result *result,
                                       ff_error *error);

/* Closes; an unfinished shard's .tmp is removed, whole shards stay. NULL is accepted. */
void ff_writer_close(ff_writer **writer);

#endif
