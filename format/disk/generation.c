#include "format/disk/generation.h"

#include "format/disk/checksum.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t shards_for(const ff_metadata *metadata, uint64_t items) {
    return (items - 1) / metadata->items_per_shard + 1;
}

uint64_t ff_metadata_first_item(const ff_metadata *metadata) {
    size_t count = metadata->generation_count;
    return count ? metadata->generation[count - 1].items : 0;
}

uint32_t ff_metadata_first_shard(const ff_metadata *metadata) {
    size_t count = metadata->generation_count;
    return count ? metadata->generation[count - 1].shards : 0;
}

uint32_t ff_metadata_shard_count(const ff_metadata *metadata) {
    return ff_metadata_first_shard(metadata) +
           (uint32_t)shards_for(metadata, metadata->items - ff_metadata_first_item(metadata));
}

ff_shard_place ff_metadata_shard_place(const ff_metadata *metadata, uint32_t number) {
    /* The first generation that had this shard. */
    size_t low = 0, high = metadata->generation_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (metadata->generation[middle].shards <= number)
            low = middle + 1;
        else
            high = middle;
    }
    ff_shard_place place = {.generation = (uint32_t)low};
    place.end_item =
        low < metadata->generation_count ? metadata->generation[low].items : metadata->items;
    place.first_item = low ? metadata->generation[low - 1].items : 0;
    uint64_t within = number - (low ? metadata->generation[low - 1].shards : 0);
    place.first_position = place.first_item + within * metadata->items_per_shard;
    uint64_t left = place.end_item - place.first_position;
    place.position_count = left < metadata->items_per_shard ? left : metadata->items_per_shard;
    return place;
}

ff_status ff_generations_check(const ff_metadata *metadata, ff_error *error) {
    uint64_t items = 0, shards = 0;
    if (metadata->version > FF_FORMAT_VERSION)
        return ff_fail(error, FF_BAD_DATA, "version %u; this program knows 0 to %u",
                       metadata->version, FF_FORMAT_VERSION);
    if (!metadata->version && metadata->generation_count)
        return ff_fail(error, FF_BAD_DATA, "generation: version 0 has none");
    for (size_t i = 0; i < metadata->generation_count; i++) {
        const ff_generation *at = &metadata->generation[i];
        if (at->items <= items || at->items >= metadata->items)
            return ff_fail(error, FF_BAD_DATA,
                           "generation: %" PRIu64 " items, wanted more than %" PRIu64
                           " and fewer than %" PRIu64,
                           at->items, items, metadata->items);
        shards += shards_for(metadata, at->items - items);
        items = at->items;
        if (at->shards != shards)
            return ff_fail(error, FF_BAD_DATA,
                           "generation: %u shards for %" PRIu64 " items, wanted %" PRIu64,
                           at->shards, items, shards);
    }
    if (shards + shards_for(metadata, metadata->items - items) > FF_SHARDS_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "shards: more than a million; choose larger shards");
    return FF_OK;
}

ff_status ff_metadata_append(ff_metadata *metadata, const uint8_t id[16], uint64_t items,
                             ff_error *error) {
    uint64_t total;
    if (!items || !ff_add_u64(metadata->items, items, &total))
        return ff_fail(error, FF_FAILED, "%" PRIu64 " items cannot be appended", items);
    ff_generation last = {.items = metadata->items, .shards = ff_metadata_shard_count(metadata)};
    memcpy(last.id, id, 16);
    FF_TRY(ff_grow(&metadata->generation, metadata->generation_count, sizeof last, "generations",
                   error));
    metadata->generation[metadata->generation_count++] = last;
    metadata->items = total;
    metadata->version = FF_FORMAT_VERSION;
    return ff_metadata_check(metadata, error);
}

/* *field: the newer metadata's fields without the classes that were added since; owns only the
 * array. */
static ff_status earlier_fields(const ff_metadata *older, const ff_metadata *newer,
                                ff_field **field, ff_error *error) {
    FF_TRY(ff_alloc(field, newer->field_count, sizeof **field, "label fields", error));
    for (size_t i = 0; i < newer->field_count; i++) {
        ff_field *at = &(*field)[i];
        *at = newer->field[i];
        const uint32_t count = i < older->field_count ? older->field[i].class_count : 0;
        if (at->kind == FF_FIELD_CLASS && count && count < at->class_count) at->class_count = count;
    }
    return FF_OK;
}

ff_status ff_metadata_continues(const ff_metadata *older, const uint8_t id[16],
                                const ff_metadata *newer, const char *what, ff_error *error) {
    size_t count = older->generation_count;
    if (count >= newer->generation_count || newer->generation[count].items != older->items ||
        memcmp(newer->generation[count].id, id, 16))
        return ff_fail(error, FF_BAD_DATA, "%s: its metadata names no generation of this set",
                       what);
    /* A view of the newer metadata, reduced to the older generation; owns nothing. */
    ff_metadata then = *newer;
    then.version = older->version;
    then.items = older->items;
    then.generation_count = count;
    if (then.provenance_count > older->provenance_count)
        then.provenance_count = older->provenance_count;
    if (newer->variable_size && older->height <= newer->height && older->width <= newer->width) {
        then.height = older->height;
        then.width = older->width;
    }
    FF_TRY(earlier_fields(older, newer, &then.field, error));
    ff_buffer own = {0}, wanted = {0};
    ff_status status = ff_metadata_write(older, &own, error);
    if (status == FF_OK) status = ff_metadata_write(&then, &wanted, error);
    if (status == FF_OK && ff_metadata_compare(what, &own, &wanted, error) != FF_OK)
        status = FF_BAD_DATA;
    if (status == FF_BAD_DATA && error) error->status = status;
    ff_buffer_free(&own);
    ff_buffer_free(&wanted);
    free(then.field);
    return status;
}
