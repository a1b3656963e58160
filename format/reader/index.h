/* The index of one open set: its file, mapped, of which each block is checked at its first touch.
 * The cache of a set behind a URL may lack blocks of a large index (remote.h), which are zeros
 * then. A block that is not right there is fetched, checked and written into the cache's file: so
 * nothing else records which blocks are there, and processes that share the file, or were killed,
 * leave nothing wrong. Private to format/.
 *
 * Thread rule: any thread, except for opening and closing. */
#ifndef FF_FORMAT_INDEX_H
#define FF_FORMAT_INDEX_H

#include "format/reader/dataset.h"

/* Opens and maps dataset->index_path, and checks header and table of checksums. *none = true: there
 * is no such file. */
FF_MUST_USE ff_status ff_index_open(ff_dataset *dataset, bool *none, ff_error *error);
void ff_index_close(ff_dataset *dataset);

/* Copies checked bytes. */
FF_MUST_USE ff_status ff_index_read(ff_dataset *dataset, uint64_t offset, void *to, uint64_t bytes,
                                    ff_error *error);

/* Fetches what the cache lacks of these bytes, many blocks at a time. Whoever reads the bytes
 * reports why something could not be fetched. */
void ff_index_bring(const ff_dataset *dataset, uint64_t offset, uint64_t bytes);

/* Whether `count` blocks from number `first` on have the checksums [count] of a table. FF_BAD_DATA
 * with `path` if not. */
FF_MUST_USE ff_status ff_index_check_blocks(const ff_index_header *header, uint64_t first,
                                            uint64_t count, const uint8_t *blocks,
                                            const uint8_t *table, const char *path,
                                            ff_error *error);
/* The same for the table itself, and for the zeros at the end of the file; both follow one another.
 */
FF_MUST_USE ff_status ff_index_check_table(const ff_index_header *header, const uint8_t *table,
                                           const char *path, ff_error *error);

#endif
