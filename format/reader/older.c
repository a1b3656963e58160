#include "format/reader/older.h"

#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "format/disk/ids.h"
#include "format/reader/dataset.h"

#include <stdlib.h>
#include <string.h>

/* Combinations of generations that several sets are tried in. */
enum { UNITED_TRIES = 1 << 20 };

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

typedef bool taker(void *context, size_t g, const ff_dataset_ids *id);

/* Calls `take` with each earlier generation and its ids until it returns true; *g = that
 * generation, or the number of all earlier ones. */
static ff_status walk(ff_dataset *dataset, taker *take, void *context, size_t *g, ff_error *error) {
    const size_t count = dataset->metadata.generation_count;
    uint64_t number = 0;
    uint8_t *row = NULL;
    ff_ids *ids = NULL;
    ff_status status;
    FF_TRY_DONE(ff_ids_create(&ids, error));
    FF_TRY_DONE(ff_alloc(&row, dataset->row_bytes + 1, 1, "a label row", error));
    for (*g = 0; *g < count; ++*g) {
        ff_dataset_ids id;
        for (const uint64_t end = samples_of(dataset, *g); number < end; number++)
            FF_TRY_DONE(add_sample(dataset, number, row, ids, error));
        id = dataset->header.id;
        ff_ids_finish(ids, &id);
        if (take(context, *g, &id)) break;
    }
done:
    free(row);
    ff_ids_destroy(&ids);
    return status;
}

typedef struct wanted {
    const char *content;
    ff_dataset_ids id; /* of the generation that has it */
} wanted;

static bool is_wanted(void *context, size_t g, const ff_dataset_ids *id) {
    wanted *own = context;
    char text[33];
    (void)g;
    own->id = *id;
    ff_hex(text, id->content, sizeof id->content);
    return !strcmp(text, own->content);
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

static ff_status return_one(ff_dataset *dataset, const char *content, uint64_t *left_out,
                            ff_error *error) {
    size_t g;
    wanted found = {.content = content};
    ff_metadata older;
    *left_out = 0;
    FF_TRY(walk(dataset, is_wanted, &found, &g, error));
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
    dataset->header.id = found.id;
    return FF_OK;
}

/* ---- several sets --------------------------------------------------------------------------- */

/* The content ids of a set's generations, the newest last. */
typedef struct past {
    uint8_t (*content)[16];
    size_t count, at; /* `at`: the one that is tried */
} past;

static bool keep_id(void *context, size_t g, const ff_dataset_ids *id) {
    memcpy(((past *)context)->content[g], id->content, 16);
    return false;
}

static ff_status read_past(past *own, ff_dataset *set, ff_error *error) {
    size_t g;
    own->count = set->metadata.generation_count + 1;
    own->at = own->count - 1;
    FF_TRY(ff_alloc(&own->content, own->count, sizeof *own->content, "generations", error));
    FF_TRY(walk(set, keep_id, own, &g, error));
    memcpy(own->content[own->at], set->header.id.content, 16);
    return FF_OK;
}

/* Tries the generations of all sets until they have this content id together. */
static bool find_together(past *sets, size_t count, const char *content) {
    for (uint32_t tries = 0; tries < UNITED_TRIES; tries++) {
        uint8_t ids[FF_SETS_LIMIT * 16], id[16];
        char text[33];
        size_t next = 0;
        for (size_t i = 0; i < count; i++) memcpy(ids + 16 * i, sets[i].content[sets[i].at], 16);
        ff_id_of(id, ids, count * 16);
        ff_hex(text, id, sizeof id);
        if (!strcmp(text, content)) return true;
        while (next < count && sets[next].at == 0) sets[next].at = sets[next].count - 1, next++;
        if (next == count) return false;
        sets[next].at--;
    }
    return false;
}

static ff_status return_sets(ff_dataset *dataset, const past *sets, uint64_t *left_out,
                             ff_error *error) {
    for (size_t i = 0; i < dataset->united_count; i++) {
        uint64_t left;
        char text[33];
        ff_hex(text, sets[i].content[sets[i].at], 16);
        if (sets[i].at + 1 == sets[i].count) continue;
        FF_TRY(return_one(dataset->united[i].set, text, &left, error));
        *left_out += left;
    }
    return ff_united_again(dataset, error);
}

static ff_status return_together(ff_dataset *dataset, const char *content, uint64_t *left_out,
                                 ff_error *error) {
    past sets[FF_SETS_LIMIT] = {{0}};
    ff_status status = FF_OK;
    *left_out = 0;
    for (size_t i = 0; i < dataset->united_count && status == FF_OK; i++)
        status = read_past(&sets[i], dataset->united[i].set, error);
    if (status == FF_OK && find_together(sets, dataset->united_count, content))
        status = return_sets(dataset, sets, left_out, error);
    for (size_t i = 0; i < dataset->united_count; i++) free(sets[i].content);
    return status;
}

ff_status ff_dataset_return_to(ff_dataset *dataset, const char *content, uint64_t *left_out,
                               ff_error *error) {
    return dataset->united ? return_together(dataset, content, left_out, error)
                           : return_one(dataset, content, left_out, error);
}
