/* Builds the index of a split from its shards: at the end of packing and for repair. Both use the
 * same code, so a rebuilt index has the same bytes. */
#ifndef FF_FORMAT_INDEX_H
#define FF_FORMAT_INDEX_H

#include "format/writer/writer.h"

/* Reads the records of the shards in `directory` and commits index.ffx (temporary file, fsync,
 * rename, folder fsync). All shards of the metadata in `text` (NULL: the text in shard 0) must
 * exist. If `written` is not NULL, an existing index with the same bytes is left alone, and
 * *written = whether an index was committed. Memory: O(shards), plus, if storage order differs from
 * number order, a mapped table of 8 bytes per item. FF_BAD_DATA naming the shard that is missing,
 * broken or from another dataset. */
FF_MUST_USE ff_status ff_index_build(const char *directory, const ff_buffer *text,
                                     ff_writer_result *result, bool *written, ff_error *error);

#endif
