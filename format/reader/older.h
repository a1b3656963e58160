/* A set in the state before it was appended to. */
#ifndef FF_FORMAT_OLDER_H
#define FF_FORMAT_OLDER_H

#include "format/reader/reader.h"

/* Turns the open set into its earlier generation with this content id (32 hexadecimal digits):
 * samples, shards, metadata and ids. *left_out = the samples of later generations. If no earlier
 * generation has this id, *left_out = 0 and nothing is changed. Reads all entries of the earlier
 * generations. Several sets that are opened as one: each becomes the generation that makes this
 * their content id. Call it before any reader of the set is opened. FF_BAD_DATA, FF_IO. */
FF_MUST_USE ff_status ff_dataset_return_to(ff_dataset *dataset, const char *content,
                                           uint64_t *left_out, ff_error *error);

#endif
