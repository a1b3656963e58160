/* Open shard files, shared by all threads that read a dataset: few files, whatever the number of
 * shards and threads. Reads bypass the page cache if the file system supports it (O_DIRECT).
 * Private to format/.
 *
 * Thread rule: any thread. */
#ifndef FF_FORMAT_FILES_H
#define FF_FORMAT_FILES_H

#include "format/disk/shard.h"
#include "format/reader/reader.h"

#include <stdbool.h>

typedef struct ff_files ff_files;
FF_MUST_USE ff_status ff_files_create(ff_files **files, ff_error *error);
/* Call it when no thread reads any more. NULL is accepted. */
void ff_files_destroy(ff_files **files);

/* Reads `bytes` of shard `number` at `offset`, a multiple of the block. `to` begins at a multiple
 * of the block and has room for `bytes` rounded up to whole blocks. FF_IO with path and offset if
 * the file cannot be read or ends before; with the path if another file has replaced it. */
FF_MUST_USE ff_status ff_files_read(ff_files *files, const ff_shard *shard, uint32_t number,
                                    uint64_t offset, uint64_t bytes, uint8_t *to, ff_error *error);

/* Fetches what the cache lacks of a range; a shard in a folder has all. */
FF_MUST_USE ff_status ff_files_bring(ff_files *files, const ff_shard *shard, uint64_t offset,
                                     uint64_t bytes, ff_error *error);

/* Whether a shard was copied or written since it was opened: its footer is the same, but its
 * samples may be others, as while another file is written over it from its begin on. */
bool ff_files_were_written(const ff_files *files);

/* Whether a call that failed, and had errno = 0 before it, is worth another try: the process had no
 * descriptor left, and one of the files is closed now. If all files are being read, waits for one.
 */
bool ff_files_make_room(ff_files *files, ff_status status);

#endif
