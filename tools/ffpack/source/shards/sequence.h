/* The numbers in the names of a source's shards. */
#ifndef FF_FFPACK_SOURCE_SEQUENCE_H
#define FF_FFPACK_SOURCE_SEQUENCE_H

#include "tools/ffpack/source/shards/shards.h"

/* Notes each sequence of numbered shards with its first number, its last and their count, and the
 * number missing between them. FF_BAD_DATA if names hold the count (`-of-M`) and some shards are
 * missing. `source` and `kind` are for the messages. */
FF_MUST_USE ff_status ff_sequences_check(const ff_names *paths, const ff_shard_kind *kind,
                                         const char *source, ff_names *notes, ff_error *error);

#endif
