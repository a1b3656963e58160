/* Decompresses the frames of compressed shards, one at a time, into the slots that a raw shard
 * would hold. Thread rule: one thread at a time uses an ff_frames. */
#ifndef FF_FORMAT_FRAMES_H
#define FF_FORMAT_FRAMES_H

#include "format/reader/direct.h"

typedef struct ff_frames ff_frames;

/* For shards of the set that `metadata` describes; `metadata` must outlive the ff_frames. With
 * `check` a frame's bytes are compared with its checksum before decompression. direct: reads the
 * frames, and must outlive the ff_frames; NULL = the frames are mapped. */
FF_MUST_USE ff_status ff_frames_open(ff_frames **frames, const ff_metadata *metadata, bool check,
                                     ff_direct *direct, ff_error *error);
/* NULL is accepted. */
void ff_frames_close(ff_frames **frames);

/* The frame that holds this payload offset: the last one that begins at or before it. The frame is
 * checked against its shard. */
FF_MUST_USE ff_status ff_frame_at(const ff_shard *shard, uint64_t offset, ff_frame *frame,
                                  ff_error *error);

/* Decompresses the frame at payload offset `offset` from `bytes`, its bytes in the file, to
 * `slots`, which has room for the frame's payload. */
FF_MUST_USE ff_status ff_frames_unpack(ff_frames *frames, const ff_shard *shard, uint64_t offset,
                                       const uint8_t *compressed, uint8_t *slots, ff_error *error);

/* The slot of a checked record, from the current frame or a newly decompressed one. The slot is
 * valid until the next call; the shard must stay open until then. */
FF_MUST_USE ff_status ff_frames_slot(ff_frames *frames, const ff_shard *shard,
                                     const ff_entry *entry, const uint8_t **slot, ff_error *error);

#endif
