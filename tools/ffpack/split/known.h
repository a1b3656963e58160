/* The items that a set holds already, so that an append notices those that come again: same name,
 * same bytes at the source. Memory: 16 to 32 bytes per item. Thread rule: one thread adds; after
 * that, any number of threads look up. */
#ifndef FF_FFPACK_KNOWN_H
#define FF_FFPACK_KNOWN_H

#include "format/base/memory.h"

typedef struct ff_known ff_known;

FF_MUST_USE ff_status ff_known_create(ff_known **known, ff_error *error);

/* Adds all samples of the packed split `folder`. */
FF_MUST_USE ff_status ff_known_add(ff_known *known, const char *folder, ff_error *error);

/* `source_checksum`: XXH3-64 of the item's bytes. */
bool ff_known_has(const ff_known *known, const void *key, size_t key_bytes,
                  uint64_t source_checksum);

/* NULL is accepted. */
void ff_known_destroy(ff_known **known);

#endif
