/* Builds the index of a split from its shards: at the end of packing, and to repair one. The same
 * code, so a rebuilt index is the same bytes. */
#ifndef FF_FORMAT_INDEX_H
#define FF_FORMAT_INDEX_H

#include "format/writer.h"

/* Reads the records of every shard-NNNNNN.ffs in `directory`, which must cover all positions, and
 * commits index.ffx there (temporary file, fsync, rename, folder fsync). Memory: O(shards), plus a
 * mapped table of 8 bytes an item where storage order differs from number order. FF_BAD_DATA naming
 * the shard that is missing, broken or from another dataset. */
FF_MUST_USE ff_status ff_index_build(const char *directory, ff_writer_result *result,
                                     ff_error *error);

#endif
