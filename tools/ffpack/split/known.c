#include "tools/ffpack/split/known.h"

#include "format/disk/checksum.h"
#include "format/disk/layout.h"
#include "format/reader/reader.h"

#include <stdlib.h>

/* A table of 64-bit hashes with open addressing; 0 is an empty place. Two different items with one
 * hash (1 in 10^7 for a million items appended to a million) cost a refusal, never a wrong set. */
struct ff_known {
    uint64_t *hash; /* [size], a power of two, at most half full */
    uint64_t size, count;
};

static uint64_t hash_of(const void *key, size_t key_bytes, uint64_t source_checksum) {
    uint64_t hash = ff_checksum_seeded(key, key_bytes, source_checksum);
    return hash ? hash : 1;
}

static void put(ff_known *known, uint64_t hash) {
    uint64_t at = hash & (known->size - 1);
    while (known->hash[at] && known->hash[at] != hash) at = (at + 1) & (known->size - 1);
    known->count += !known->hash[at];
    known->hash[at] = hash;
}

static ff_status grow(ff_known *known, uint64_t items, ff_error *error) {
    ff_known larger = {.size = known->size};
    while (larger.size < 2 * (known->count + items)) larger.size *= 2;
    FF_TRY(ff_alloc(&larger.hash, larger.size, sizeof *larger.hash, "the set's items", error));
    for (uint64_t i = 0; known->hash && i < known->size; i++)
        if (known->hash[i]) put(&larger, known->hash[i]);
    free(known->hash);
    *known = larger;
    return FF_OK;
}

ff_status ff_known_create(ff_known **out, ff_error *error) {
    *out = NULL;
    ff_known *known;
    FF_TRY(ff_alloc(&known, 1, sizeof *known, "the set's items", error));
    known->size = 1024;
    *out = known;
    return FF_OK;
}

static ff_status add_all(ff_known *known, ff_dataset *dataset, ff_error *error) {
    char key[FF_KEY_LIMIT_BYTES];
    FF_TRY(grow(known, ff_dataset_count(dataset), error));
    for (uint64_t i = 0; i < ff_dataset_count(dataset); i++) {
        ff_entry entry;
        size_t key_bytes;
        ff_dataset_scan(dataset, i, FF_SCAN_ENTRIES);
        FF_TRY(ff_dataset_entry(dataset, i, &entry, error));
        FF_TRY(ff_dataset_key(dataset, i, key, &key_bytes, error));
        put(known, hash_of(key, key_bytes, entry.source_checksum));
    }
    return FF_OK;
}

ff_status ff_known_add(ff_known *known, const char *folder, ff_error *error) {
    ff_dataset *dataset;
    FF_TRY(ff_dataset_open(&dataset, folder, FF_VERIFY_FIRST, error));
    ff_status status = add_all(known, dataset, error);
    ff_dataset_close(&dataset);
    return status;
}

bool ff_known_has(const ff_known *known, const void *key, size_t key_bytes,
                  uint64_t source_checksum) {
    uint64_t hash = hash_of(key, key_bytes, source_checksum), at = hash & (known->size - 1);
    while (known->hash && known->hash[at] && known->hash[at] != hash)
        at = (at + 1) & (known->size - 1);
    return known->hash && known->hash[at] == hash;
}

void ff_known_destroy(ff_known **known) {
    if (!*known) return;
    free((*known)->hash);
    free(*known);
    *known = NULL;
}
