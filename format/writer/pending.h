/* Pending shards: complete except for the mean and std in their metadata, which are computed from
 * the samples that are being packed (FORMAT.md, "Committing").
 *
 * The shard is synced as shard-KKKKKK.ffs.tmp, with stand-in metadata whose text has the same
 * length as the real one. After it shard-KKKKKK.ffs.pending is committed next to it, which holds
 * the shard's footer, that text, and a note of the packer. Completing rewrites header, text and
 * footer in place and renames the shard. Completing needs only the .pending file, so it can be
 * repeated after a kill. Thread rule: one thread at a time. */
#ifndef FF_FORMAT_PENDING_H
#define FF_FORMAT_PENDING_H

#include "format/disk/layout.h"

typedef struct ff_pending {
    char *path; /* path of the .pending file that was read */
    uint64_t file_bytes, footer_offset;
    uint8_t footer[FF_FOOTER_BYTES];
    ff_buffer text; /* text of the stand-in metadata */
    ff_buffer note;
} ff_pending;

void ff_pending_free(ff_pending *pending);

/* Commits the .pending file of shard `number`, whose .tmp file was synced. */
FF_MUST_USE ff_status ff_pending_write(const ff_pending *pending, const char *directory,
                                       uint32_t number, ff_error *error);

/* Whether shard `number` is pending: both files exist, or only the last step of completing is
 * missing. */
bool ff_pending_is(const char *directory, uint32_t number);

/* Reads the .pending file, and checks the size of the shard's .tmp file. `pending` must be zeroed
 * before; the caller frees it, also after a failure. */
FF_MUST_USE ff_status ff_pending_read(ff_pending *pending, const char *directory, uint32_t number,
                                      ff_error *error);

/* Completes all pending shards of the folder, from the lowest up: `metadata` replaces the metadata
 * with the text `stand_in`, which all of them must have. Without `sync` the last shard's name
 * becomes durable with the index, which the caller commits next. */
FF_MUST_USE ff_status ff_pending_complete(const char *directory, const ff_buffer *stand_in,
                                          const ff_metadata *metadata, bool sync, ff_error *error);

/* Removes all pending shards of the folder, if they cannot be completed. */
FF_MUST_USE ff_status ff_pending_remove(const char *directory, ff_error *error);

/* Removes the files that a killed writer left in the folder: .tmp files except those of pending
 * shards, and .pending files without a shard. Removes only names that a writer creates. */
FF_MUST_USE ff_status ff_pending_tidy(const char *directory, ff_error *error);

/* Parses "shard-000000.ffs.pending"; false for any other name. */
bool ff_pending_name_parse(const char *name, uint32_t *number);

#endif
