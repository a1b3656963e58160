#include "format/older.h"

#include "format/checksum.h"
#include "format/dataset.h"
#include "format/generation.h"
#include "format/ids.h"

#include <stdlib.h>
#include <string.h>

/* The samples of generations 0 to g, which are the first ones. */
static uint64_t samples_of(const ff_dataset *dataset, size_t g) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < dataset->metadata.generation[g].shards; i++)
        count += dataset->row[i].sample_count;
    return count;
}

static ff_status add_sample(ff_dataset *dataset, uint64_t number, uint8_t *row, ff_ids *ids,
                            ff_error *error) {
    uint8_t key[FF_KEY_LIMIT_BYTES];
    size_t key_bytes;
    ff_entry entry;
    ff_dataset_scan(dataset, number, FF_SCAN_ENTRIES | FF_SCAN_LABELS);
    FF_TRY(ff_dataset_entry(dataset, number, &entry, error));
    FF_TRY(ff_dataset_key(dataset, number, key, &key_bytes, error));
    FF_TRY(ff_dataset_small_label(dataset, number, 0, row, dataset->row_bytes, error));
    ff_ids_add(ids, &entry, row, dataset->row_bytes, key);
    return FF_OK;
}

/* *g = the earlier generation with this content id, and *id its ids; *g = the number of earlier
 * generations if none has that id. */
static ff_status find(ff_dataset *dataset, const char *content, size_t *g, ff_dataset_ids *id,
                      ff_error *error) {
    const size_t count = dataset->metadata.generation_count;
    uint64_t number = 0;
    uint8_t *row = NULL;
    ff_ids *ids = NULL;
    ff_status status;
    FF_TRY_DONE(ff_ids_create(&ids, error));
    FF_TRY_DONE(ff_alloc(&row, dataset->row_bytes + 1, 1, "a label row", error));
    for (*g = 0; *g < count; ++*g) {
        char text[33];
        for (const uint64_t end = samples_of(dataset, *g); number < end; number++)
            FF_TRY_DONE(add_sample(dataset, number, row, ids, error));
        ff_ids_finish(ids, id);
        ff_hex(text, id->content, sizeof id->content);
        if (!strcmp(text, content)) break;
    }
done:
    free(row);
    ff_ids_destroy(&ids);
    return status;
}

/* Reads the metadata of generation g, which each of its shards holds. */
static ff_status read_metadata(const ff_dataset *dataset, size_t g, ff_metadata *metadata,
                               uint8_t id[16], ff_error *error) {
    ff_buffer text = {0};
    ff_shard shard;
    FF_TRY(ff_shard_open(&shard, dataset->path, dataset->metadata.generation[g].shards - 1, error));
    ff_status status;
    FF_TRY_DONE(ff_shard_belongs(&shard, &dataset->metadata, dataset->metadata_id, error));
    FF_TRY_DONE(ff_shard_metadata_text(&shard, &text, error));
    FF_TRY_DONE(ff_shard_check_earlier(&shard, &dataset->metadata, &text, error));
    FF_TRY_DONE(ff_metadata_read(metadata, text.bytes, text.length, error));
    ff_id_of(id, text.bytes, text.length);
done:
    ff_buffer_free(&text);
    ff_shard_close(&shard);
    return status;
}

ff_status ff_dataset_return_to(ff_dataset *dataset, const char *content, uint64_t *left_out,
                               ff_error *error) {
    size_t g;
    ff_dataset_ids id = dataset->header.id;
    ff_metadata older;
    *left_out = 0;
    FF_TRY(find(dataset, content, &g, &id, error));
    if (g == dataset->metadata.generation_count) return FF_OK;
    const uint64_t count = samples_of(dataset, g);
    FF_TRY(read_metadata(dataset, g, &older, dataset->metadata_id, error));
    *left_out = dataset->header.sample_count - count;
    for (uint32_t i = ff_metadata_shard_count(&older); i < dataset->header.shard_count; i++)
        ff_shard_close(&dataset->shard[i]);
    ff_metadata_free(&dataset->metadata);
    dataset->metadata = older;
    dataset->header.version = older.version;
    dataset->header.generation = (uint32_t)older.generation_count;
    dataset->header.sample_count = count;
    dataset->header.shard_count = ff_metadata_shard_count(&older);
    dataset->header.id = id;
    return FF_OK;
}
