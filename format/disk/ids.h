/* content_id and source_id (FORMAT.md): hashes over the samples in the order of numbers, integers
 * little-endian. content_id hashes checksum, shape, label row, key length and key; source_id hashes
 * key length, key and source checksum. Thread rule: one thread at a time. */
#ifndef FF_FORMAT_IDS_H
#define FF_FORMAT_IDS_H

#include "format/disk/layout.h"

typedef struct ff_ids ff_ids;

FF_MUST_USE ff_status ff_ids_create(ff_ids **ids, ff_error *error);
/* Adds the next sample: its label row in the index, and its key of entry->key_bytes, which is at
 * most FF_KEY_LIMIT_BYTES. */
void ff_ids_add(ff_ids *ids, const ff_entry *entry, const void *row, size_t row_bytes,
                const void *key);
/* Writes id->content and id->source. */
void ff_ids_finish(const ff_ids *ids, ff_dataset_ids *id);
void ff_ids_destroy(ff_ids **ids); /* NULL is accepted */

#endif
