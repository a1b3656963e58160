/* Builds the index of a split from its shards: at the end of packing, and to repair one. The same
 * code, so a rebuilt index is the same bytes. */
#ifndef FF_FORMAT_INDEX_H
#define FF_FORMAT_INDEX_H

#include "format/writer.h"

/* Reads the records of the shards in `directory` that the metadata of text `text` wants (NULL: the
 * text that shard 0 carries), which must all be there, and commits index.ffx (temporary file,
 * fsync, rename, folder fsync). With `written` an index that is there already with the same bytes
 * is left alone, and *written says whether one was committed. Memory: O(shards), plus a mapped
 * table of 8 bytes an item where storage order differs from number order. FF_BAD_DATA naming the
 * shard that is missing, broken or from another dataset. */
FF_MUST_USE ff_status ff_index_build(const char *directory, const ff_buffer *text,
                                     ff_writer_result *result, bool *written, ff_error *error);

#endif
