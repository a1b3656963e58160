#include "format/disk/ids.h"

#include "format/disk/checksum.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct ff_ids {
    XXH3_state_t *content, *source;
};

ff_status ff_ids_create(ff_ids **out, ff_error *error) {
    ff_ids *ids;
    *out = NULL;
    FF_TRY(ff_alloc(&ids, 1, sizeof *ids, "checksums", error));
    ids->content = XXH3_createState();
    ids->source = XXH3_createState();
    if (!ids->content || !ids->source) {
        ff_ids_destroy(&ids);
        return ff_fail(error, FF_NO_MEMORY, "not enough memory for checksums");
    }
    XXH3_128bits_reset(ids->content);
    XXH3_128bits_reset(ids->source);
    *out = ids;
    return FF_OK;
}

void ff_ids_add(ff_ids *ids, const ff_entry *entry, const void *row, size_t row_bytes,
                const void *key) {
    uint8_t head[16], name[4 + FF_KEY_LIMIT_BYTES + 8]; /* one update of all is faster */
    assert(entry->key_bytes <= FF_KEY_LIMIT_BYTES);
    const size_t name_bytes = 4 + (size_t)entry->key_bytes;
    ff_store_u64(head, entry->checksum);
    ff_store_u32(head + 8, entry->height);
    ff_store_u32(head + 12, entry->width);
    ff_store_u32(name, entry->key_bytes);
    memcpy(name + 4, key, entry->key_bytes);
    ff_store_u64(name + name_bytes, entry->source_checksum);
    ff_hash_update(ids->content, head, sizeof head);
    ff_hash_update(ids->content, row, row_bytes);
    ff_hash_update(ids->content, name, name_bytes);
    ff_hash_update(ids->source, name, name_bytes + 8);
}

void ff_ids_finish(const ff_ids *ids, ff_dataset_ids *id) {
    ff_id_store(id->content, ff_hash_digest(ids->content));
    ff_id_store(id->source, ff_hash_digest(ids->source));
}

void ff_ids_destroy(ff_ids **ids) {
    if (!*ids) return;
    XXH3_freeState((*ids)->content);
    XXH3_freeState((*ids)->source);
    free(*ids);
    *ids = NULL;
}
