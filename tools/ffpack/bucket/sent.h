/* Shards of a set that is packed into a bucket: a shard that the server has leaves only its ends on
 * the disk (header and tables, from which the index is built), and a record of its object in
 * NAME.sent. Private to tools/ffpack/bucket. Thread rule: one thread at a time per shard. */
#ifndef FF_FFPACK_SENT_H
#define FF_FFPACK_SENT_H

#include "format/storage/storage.h"

/* *sent = whether the shard `path` has a record, which is then in *object. FF_BAD_DATA for a broken
 * record. */
FF_MUST_USE ff_status ff_sent_read(const char *path, ff_object *object, bool *sent,
                                   ff_error *error);
/* Commits the record of DIRECTORY/NAME, a shard of this number, and frees the space of its samples,
 * if the file system can. */
FF_MUST_USE ff_status ff_sent_write(const char *directory, uint32_t number, const ff_object *object,
                                    ff_error *error);
/* Removes a shard whose object is lost, then the record. */
FF_MUST_USE ff_status ff_sent_forget(const char *path, ff_error *error);

#endif
