/* External sort: sorted runs in temporary space, merged when read. A record is a key and a payload,
 * both bytes; keys are ordered by their bytes (a prefix before longer keys), equal keys in the
 * order in which they were added. Memory: FF_SORTER_BYTES, then a window for every run of that
 * size. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_SORTER_H
#define FF_FFPACK_SOURCE_SORTER_H

#include "format/base/memory.h"

#define FF_SORTER_BYTES        (UINT64_C(8) << 20)
#define FF_SORTER_RECORD_LIMIT (UINT64_C(64) << 10) /* key and payload of a record */

typedef struct ff_sorter ff_sorter;

typedef struct ff_sorter_record {
    const void *key, *payload;
    uint32_t key_bytes, payload_bytes;
} ff_sorter_record;

/* `directory` holds the temporary space; none is used while all records fit into memory. */
FF_MUST_USE ff_status ff_sorter_create(ff_sorter **sorter, const char *directory, ff_error *error);
FF_MUST_USE ff_status ff_sorter_add(ff_sorter *sorter, const ff_sorter_record *record,
                                    ff_error *error);
/* The next record in order, valid until the next call; *more = false after the last. After the
 * first call nothing may be added. */
FF_MUST_USE ff_status ff_sorter_next(ff_sorter *sorter, ff_sorter_record *record, bool *more,
                                     ff_error *error);
void ff_sorter_destroy(ff_sorter **sorter);

#endif
