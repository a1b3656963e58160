/* A shard opened for reading: mapped, with its header and footer checked. Used by the reader, the
 * index builder, the verifier and a continuing writer. Thread rule: read-only once open. */
#ifndef FF_FORMAT_SHARD_H
#define FF_FORMAT_SHARD_H

#include "format/disk/layout.h"
#include "format/disk/mapped.h"

#include <sys/stat.h>

typedef struct ff_shard {
    char *file; /* its path */
    char *path; /* its name in messages: the same, or its URL (ff_shard_call) */
    uint64_t bytes;
    ff_mapped mapped; /* its marks are the footer's checksum */
    /* Where the pieces of the file are fetched, if the set lies behind a URL; NULL = the file is
     * whole. The reader sets and owns the cache. */
    struct ff_cache *cache;
    dev_t device; /* these three tell whether a file is the one that was opened, unchanged */
    ino_t inode;
    struct timespec written;
    uint64_t footer_offset;
    ff_shard_header header;
    ff_shard_footer footer;
} ff_shard;

/* Makes the header of shard `number` of the set with this metadata and this id of its text. */
void ff_shard_header_make(const ff_metadata *metadata, const uint8_t metadata_id[16],
                          uint32_t number, uint8_t bytes[FF_HEADER_BYTES]);

/* Opens and maps DIRECTORY/shard-NUMBER.ffs; the descriptor is closed again. FF_IO if it cannot be
 * opened (also if it does not exist), FF_BAD_DATA if it is not a whole shard of that number. */
FF_MUST_USE ff_status ff_shard_open(ff_shard *shard, const char *directory, uint32_t number,
                                    ff_error *error);
/* The same without the mapping, for files that are read: mapped.map = NULL. */
FF_MUST_USE ff_status ff_shard_look(ff_shard *shard, const char *directory, uint32_t number,
                                    ff_error *error);
/* Maps a shard that was opened without a mapping. FF_IO if another file has replaced it;
 * FF_BAD_DATA if it lies in a cache, and its footer has changed. */
FF_MUST_USE ff_status ff_shard_map(ff_shard *shard, ff_error *error);
/* Messages about what is in the shard name it below `url` from now on. */
FF_MUST_USE ff_status ff_shard_call(ff_shard *shard, const char *url, ff_error *error);
/* Unmaps. A zeroed shard is accepted. */
void ff_shard_close(ff_shard *shard);

/* Whether a file, whose state is `now`, is the one that was opened, and was not written since. */
bool ff_shard_is_unchanged(const ff_shard *shard, const struct stat *now);

/* Checks a section's checksum, guarded. */
FF_MUST_USE ff_status ff_shard_check_section(const ff_shard *shard, int section, ff_error *error);

/* Appends a copy of the metadata's text, after checking its checksum. */
FF_MUST_USE ff_status ff_shard_metadata_text(const ff_shard *shard, ff_buffer *text,
                                             ff_error *error);

/* Checks by the shard's header that it is the set's shard of its number. `metadata` is the newest
 * generation's, `id` is the id of its text. FF_BAD_DATA. */
FF_MUST_USE ff_status ff_shard_belongs(const ff_shard *shard, const ff_metadata *metadata,
                                       const uint8_t id[16], ff_error *error);

/* Checks that `text`, the metadata text in a shard of an earlier generation, is the one that
 * `metadata` names. */
FF_MUST_USE ff_status ff_shard_check_earlier(const ff_shard *shard, const ff_metadata *metadata,
                                             const ff_buffer *text, ff_error *error);

/* Checks a record against this shard: shape, size, offset, key range. `slot` is for the error
 * message. */
FF_MUST_USE ff_status ff_entry_check(const ff_entry *entry, const ff_metadata *metadata,
                                     const ff_shard_footer *footer, const char *path, uint64_t slot,
                                     ff_error *error);

/* Checks a frame against this shard: file range, payload range, slots. */
FF_MUST_USE ff_status ff_frame_check(const ff_frame *frame, const ff_shard *shard, ff_error *error);

#endif
