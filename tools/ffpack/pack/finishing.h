/* The end of a split while the next one is packed: a thread commits the last shard and the index,
 * which mostly waits for the disk. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_FINISHING_H
#define FF_FFPACK_FINISHING_H

#include "format/base/thread.h"
#include "format/writer/writer.h"

/* Zero-initialised; the caller fills the first five. */
typedef struct ff_finishing {
    const char *directory; /* of the split */
    const ff_metadata *metadata;
    ff_writer *writer;  /* after its last block; owned once it is started */
    ff_buffer stand_in; /* text of the pending shards' metadata; empty if not pending; owned, too */
    ff_writer_result *result;
    ff_threads *thread;
    ff_error error;
} ff_finishing;

/* Directory, metadata and result stay until the end is waited for, also after a failure. */
FF_MUST_USE ff_status ff_finishing_start(ff_finishing *finishing, ff_error *error);

/* Waits for the end, releases what it owns, and returns the thread's status. */
FF_MUST_USE ff_status ff_finishing_wait(ff_finishing *finishing, ff_error *error);

#endif
