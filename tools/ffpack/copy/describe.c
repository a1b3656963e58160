#include "tools/ffpack/copy/describe.h"

#include "format/disk/checksum.h"
#include "tools/ffpack/run/describe.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* ---- the set's metadata --------------------------------------------------------------------- */

/* Removes provenance about the set's items. */
static void drop_listings(ff_metadata *copy) {
    size_t kept = 0;
    for (size_t i = 0; i < copy->provenance_count; i++) {
        ff_provenance *fact = &copy->provenance[i];
        if (strcmp(fact->key, "listing") != 0) {
            copy->provenance[kept++] = *fact;
            continue;
        }
        free(fact->key);
        free(fact->value);
    }
    copy->provenance_count = kept;
}

/* This version of zstd makes the copy's frames. */
static ff_status update_zstd(ff_metadata *copy, ff_error *error) {
    for (size_t i = 0; i < copy->provenance_count; i++) {
        ff_provenance *fact = &copy->provenance[i];
        if (strcmp(fact->key, "zstd") != 0) continue;
        free(fact->value);
        FF_TRY(ff_copy_string(&fact->value, ZSTD_versionString(), error));
    }
    return FF_OK;
}

ff_status ff_copy_describe(ff_metadata *copy, const ff_dataset *dataset, uint64_t items,
                           ff_error *error) {
    FF_TRY(ff_metadata_copy(copy, ff_dataset_metadata(dataset), error));
    copy->version = FF_FORMAT_VERSION;
    copy->items = items;
    free(copy->generation);
    copy->generation = NULL;
    copy->generation_count = 0;
    drop_listings(copy);
    return update_zstd(copy, error);
}

/* ---- another dtype -------------------------------------------------------------------------- */

/* Whether the set's transforms end with the specification's. */
static bool ends_with(const ff_metadata *set, const ff_metadata *wanted) {
    bool same = wanted->transform_count <= set->transform_count;
    for (size_t i = 0; same && i < wanted->transform_count; i++)
        same = !strcmp(set->transform[set->transform_count - wanted->transform_count + i],
                       wanted->transform[i]);
    return same;
}

static ff_status check_transforms(const ff_metadata *set, const ff_transform_spec *spec,
                                  const char *path, ff_error *error) {
    ff_metadata wanted = {.channels = set->channels};
    ff_status status = ff_transform_record(&wanted, FF_MODE_NATIVE, NULL, spec, error);
    if (status == FF_OK && !ends_with(set, &wanted))
        status =
            ff_fail(error, FF_USAGE,
                    "--dtype %s: %s does not record that its values are pixels for '%s'; wanted a "
                    "set that ffpack packed with --dtype u8",
                    ff_dtype_name(spec->dtype), path, wanted.transform[0]);
    ff_metadata_free(&wanted);
    return status;
}

/* Shards keep their size in bytes; the required features are derived again. */
static ff_status plan_again(ff_metadata *copy, ff_dtype dtype, ff_error *error) {
    const uint64_t slot = ff_metadata_slot_bytes(copy, copy->height, copy->width);
    uint64_t shard_bytes;
    if (!ff_mul_u64(copy->items_per_shard, slot, &shard_bytes)) shard_bytes = UINT64_MAX;
    copy->dtype = dtype;
    for (size_t i = 0; i < copy->required_count; i++) free(copy->required[i]);
    copy->required_count = 0;
    return ff_metadata_plan(copy, shard_bytes, error);
}

ff_status ff_copy_convert(ff_metadata *copy, ff_dtype dtype, const char *path,
                          ff_transform **transform, ff_error *error) {
    const bool normalized = copy->statistics_count > 0;
    const ff_transform_spec spec = {.source = FF_VALUES_U8,
                                    .channels = copy->channels,
                                    .mean = normalized ? copy->mean : NULL,
                                    .std = normalized ? copy->std : NULL,
                                    .dtype = dtype,
                                    .layout = copy->layout};
    if (copy->dtype != FF_U8)
        return ff_fail(error, FF_USAGE,
                       "--dtype %s: %s holds %s values; wanted a set of u8, from which this is "
                       "exact",
                       ff_dtype_name(dtype), path, ff_dtype_name(copy->dtype));
    FF_TRY(check_transforms(copy, &spec, path, error));
    if (copy->compression == FF_COMPRESSION_ZSTD) FF_TRY(ff_describe_table(copy, &spec, error));
    FF_TRY(plan_again(copy, dtype, error));
    return ff_transform_create(transform, &spec, error);
}

/* ---- which items ---------------------------------------------------------------------------- */

static void add_number(XXH3_state_t *state, uint64_t number) {
    uint8_t bytes[8];
    ff_store_u64(bytes, number);
    ff_hash_update(state, bytes, sizeof bytes);
}

static void add_labels(XXH3_state_t *state, const ff_copy_split *job) {
    const ff_class_map *map = job->classes;
    for (size_t i = 0; i < map->field_count; i++)
        for (uint32_t k = 0; map->to[i] && k < map->count[i]; k++)
            add_number(state, (uint64_t)map->to[i][k]);
    if (!job->label) return;
    add_number(state, job->field);
    for (uint64_t i = 0; i < job->choice->count; i++) add_number(state, (uint64_t)job->label[i]);
}

ff_status ff_copy_record(const ff_copy_split *job, ff_error *error) {
    ff_metadata *copy = &job->report->metadata;
    const uint8_t *set = ff_dataset_id(job->dataset)->content;
    uint8_t id[16];
    char text[33];
    XXH3_state_t *state = XXH3_createState();
    if (!state) return ff_fail(error, FF_NO_MEMORY, "not enough memory for checksums");
    XXH3_128bits_reset(state);
    for (uint64_t i = 0; i < job->choice->count; i++) add_number(state, job->choice->number[i]);
    add_labels(state, job);
    ff_id_store(id, ff_hash_digest(state));
    XXH3_freeState(state);
    ff_hex(text, set, 16);
    FF_TRY(ff_metadata_add_provenance(copy, "copied", text, error));
    ff_hex(text, id, sizeof id);
    return ff_metadata_add_provenance(copy, "listing", text, error);
}
