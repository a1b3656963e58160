/* Decompresses the frames of compressed shards, one at a time, into the slots that a raw shard
 * would hold. Thread rule: an ff_frames belongs to one thread at a time. */
#ifndef FF_FORMAT_FRAMES_H
#define FF_FORMAT_FRAMES_H

#include "format/direct.h"

typedef struct ff_frames ff_frames;

/* For shards of the set that `metadata` describes, which must outlive it. With `check` a frame's
 * bytes are checked against its checksum before decompression. direct: reads the frames, and must
 * outlive it; NULL = they are mapped. */
FF_MUST_USE ff_status ff_frames_open(ff_frames **frames, const ff_metadata *metadata, bool check,
                                     ff_direct *direct, ff_error *error);
/* NULL is accepted. */
void ff_frames_close(ff_frames **frames);

/* The frame that holds this payload offset, checked against its shard: the last one that begins at
 * or before it. */
FF_MUST_USE ff_status ff_frame_at(const ff_shard *shard, uint64_t offset, ff_frame *frame,
                                  ff_error *error);

/* Decompresses the frame at payload offset `offset` from its bytes in the file to its slots, which
 * have room for its payload. */
FF_MUST_USE ff_status ff_frames_unpack(ff_frames *frames, const ff_shard *shard, uint64_t offset,
                                       const uint8_t *compressed, uint8_t *slots, ff_error *error);

/* The slot of a checked record, from the current frame or a newly decompressed one; valid until the
 * next call. The shard must stay open until then. */
FF_MUST_USE ff_status ff_frames_slot(ff_frames *frames, const ff_shard *shard,
                                     const ff_entry *entry, const uint8_t **slot, ff_error *error);

#endif
