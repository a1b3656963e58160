#include "format/disk/checksum.h"
#include "format/reader/dataset.h"
#include "format/reader/direct.h"
#include "format/reader/frames.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct ff_reader {
    ff_dataset *dataset;
    ff_frames **frames;  /* compressed sets only: one, or one for each united set */
    ff_direct *direct;   /* if samples or frames are read instead of mapped */
    uint64_t removals;   /* ff_dataset_removals while what is mapped is right */
    const uint8_t *slot; /* slot of the last sample read; NULL = none */
    uint64_t number;
    ff_reader_find *find; /* NULL = nothing is read ahead */
    void *context;
};

static ff_status open_frames(ff_reader *reader, ff_error *error) {
    const ff_dataset *dataset = reader->dataset;
    const size_t count = ff_dataset_set_count(dataset);
    FF_TRY(ff_alloc(&reader->frames, count, sizeof *reader->frames, "a reader", error));
    for (size_t i = 0; i < count; i++)
        FF_TRY(ff_frames_open(&reader->frames[i], &ff_dataset_set(dataset, i)->metadata,
                              dataset->verify != FF_VERIFY_OFF, reader->direct, error));
    return FF_OK;
}

static ff_status open_reader(ff_reader **out, ff_dataset *dataset, bool direct, ff_error *error) {
    ff_reader *reader;
    *out = NULL;
    FF_TRY(ff_alloc(&reader, 1, sizeof *reader, "a reader", error));
    reader->dataset = dataset;
    ff_status status = FF_OK;
    if (direct) FF_TRY_DONE(ff_direct_open(&reader->direct, dataset->files, error));
    if (dataset->metadata.compression == FF_COMPRESSION_ZSTD)
        FF_TRY_DONE(open_frames(reader, error));
done:
    if (status != FF_OK) ff_reader_close(&reader);
    *out = reader;
    return status;
}

ff_status ff_reader_open(ff_reader **reader, ff_dataset *dataset, ff_error *error) {
    return open_reader(reader, dataset, ff_dataset_is_remote(dataset), error);
}

ff_status ff_reader_open_mapped(ff_reader **reader, ff_dataset *dataset, ff_error *error) {
    const uint64_t removals = ff_dataset_removals(dataset);
    FF_TRY(open_reader(reader, dataset, !ff_dataset_is_here(dataset), error));
    (*reader)->removals = removals;
    return FF_OK;
}

static void close_frames(ff_reader *reader) {
    for (size_t i = 0; reader->frames && i < ff_dataset_set_count(reader->dataset); i++)
        ff_frames_close(&reader->frames[i]);
    free(reader->frames);
    reader->frames = NULL;
}

bool ff_reader_maps(const ff_reader *reader) {
    return !reader->direct;
}

ff_status ff_reader_recheck(ff_reader *reader, bool *lost, ff_error *error) {
    *lost = !reader->direct && ff_dataset_removals(reader->dataset) != reader->removals;
    if (!*lost) return FF_OK;
    FF_TRY(ff_direct_open(&reader->direct, reader->dataset->files, error));
    if (!reader->frames) return FF_OK;
    close_frames(reader);
    return open_frames(reader, error);
}

ff_status ff_reader_open_direct(ff_reader **reader, ff_dataset *dataset, ff_error *error) {
    return open_reader(reader, dataset, true, error);
}

void ff_reader_close(ff_reader **out) {
    ff_reader *reader = *out;
    if (!reader) return;
    close_frames(reader);
    ff_direct_close(&reader->direct);
    free(reader);
    *out = NULL;
}

void ff_reader_look_first(ff_reader *reader, ff_reader_find *find, void *context) {
    reader->find = find;
    reader->context = context;
}

ff_status ff_reader_unpack(ff_reader *reader, const ff_extent *extent, const uint8_t *bytes,
                           uint8_t *slots, ff_error *error) {
    const ff_shard *shard;
    FF_TRY(ff_dataset_know_shard(reader->dataset, extent->shard, &shard, error));
    const size_t set = ff_united_at_shard(reader->dataset, extent->shard);
    return ff_frames_unpack(reader->frames[set], shard, extent->slots, bytes, slots, error);
}

void ff_dataset_prefetch(const ff_dataset *dataset, uint64_t number) {
    if (number >= dataset->header.sample_count) return;
    if (dataset->united) {
        const ff_united *own = &dataset->united[ff_united_at(dataset, number)];
        ff_dataset_prefetch(own->set, number - own->first_sample);
        return;
    }
    const ff_section *section = dataset->header.section;
    __builtin_prefetch(dataset->index.map + section[FF_INDEX_ENTRIES].offset +
                       number * FF_ENTRY_BYTES);
    __builtin_prefetch(dataset->index.map + section[FF_INDEX_LABELS].offset +
                       number * dataset->row_bytes);
}

/* ---- samples -------------------------------------------------------------------------------- */

bool ff_reader_verifies(const ff_reader *reader, uint64_t number) {
    const ff_dataset *dataset = reader->dataset;
    if (dataset->verify != FF_VERIFY_FIRST) return dataset->verify == FF_VERIFY_ALWAYS;
    const unsigned char ok =
        atomic_load_explicit(&dataset->sample_ok[number / 8], memory_order_relaxed);
    return !(ok >> number % 8 & 1) || ff_files_were_written(dataset->files) ||
           ff_dataset_removals(dataset) != dataset->removals;
}

void ff_reader_verified(ff_reader *reader, uint64_t number) {
    atomic_fetch_or_explicit(&reader->dataset->sample_ok[number / 8],
                             (unsigned char)(1u << number % 8), memory_order_relaxed);
}

ff_status ff_reader_differs(const ff_reader *reader, uint64_t number, const ff_view *view,
                            uint64_t checksum, ff_error *error) {
    const ff_entry *entry = &view->entry;
    const char *path = reader->dataset->shard[entry->shard].path;
    (void)ff_united_with(reader->dataset, &number);
    return ff_fail(error, FF_BAD_DATA,
                   "%s: offset %" PRIu64 ": sample %" PRIu64 " has checksum %016" PRIx64
                   ", wanted %016" PRIx64,
                   path, entry->offset, number, checksum, entry->checksum);
}

static ff_status verify(ff_reader *reader, uint64_t number, const ff_view *view, ff_error *error) {
    const ff_entry *entry = &view->entry;
    uint64_t found;
    if (!ff_reader_verifies(reader, number)) return FF_OK;
    if (view->mapped)
        FF_TRY(ff_mapped_checksum(&reader->dataset->shard[entry->shard].mapped, entry->offset,
                                  entry->bytes, &found, error));
    else
        found = ff_checksum(view->tensor, entry->bytes);
    if (found != entry->checksum) return ff_reader_differs(reader, number, view, found, error);
    ff_reader_verified(reader, number);
    return FF_OK;
}

/* Reads a sample's slot once, for its tensor and its labels. */
static ff_status read_slot(ff_reader *reader, uint64_t number, const ff_shard *shard,
                           const ff_entry *entry, const uint8_t **slot, ff_error *error) {
    if (!reader->slot || reader->number != number) {
        reader->slot = NULL;
        FF_TRY(ff_direct_read(reader->direct, shard, entry->shard, entry->offset, entry->bytes,
                              &reader->slot, error));
        reader->number = number;
    }
    *slot = reader->slot;
    return FF_OK;
}

static ff_status locate(ff_reader *reader, uint64_t number, ff_view *view, ff_error *error) {
    ff_dataset *dataset = reader->dataset;
    const ff_shard *shard;
    ff_entry *entry = &view->entry;
    FF_TRY(ff_dataset_entry(dataset, number, entry, error));
    const size_t set = ff_united_at(dataset, number);
    const ff_dataset *own = ff_dataset_set(dataset, set);
    const ff_metadata *metadata = &own->metadata;
    FF_TRY(reader->direct ? ff_dataset_know_shard(dataset, entry->shard, &shard, error)
                          : ff_dataset_open_shard(dataset, entry->shard, &shard, error));
    FF_TRY(ff_entry_check(entry, metadata, &shard->footer, own->index_path,
                          number - ff_dataset_set_begin(dataset, set), error));
    const uint8_t *slot = NULL;
    view->mapped = metadata->compression == FF_COMPRESSION_NONE && !reader->direct;
    if (reader->find) FF_TRY(reader->find(reader->context, reader, entry, &slot, error));
    if (slot)
        view->mapped = false;
    else if (view->mapped)
        slot = shard->mapped.map + entry->offset;
    else if (reader->frames)
        FF_TRY(ff_frames_slot(reader->frames[set], shard, entry, &slot, error));
    else
        FF_TRY(read_slot(reader, number, shard, entry, &slot, error));
    view->tensor = slot;
    view->tensor_bytes = ff_metadata_tensor_bytes(metadata, entry->height, entry->width);
    view->height = entry->height;
    view->width = entry->width;
    return view->mapped ? FF_OK : verify(reader, number, view, error);
}

ff_status ff_reader_refuse(ff_reader *reader, uint64_t number, ff_error *error) {
    ff_extent at;
    const ff_shard *shard;
    if (!ff_dataset_sample_is_remote(reader->dataset, number)) return FF_OK;
    FF_TRY(ff_dataset_extent(reader->dataset, number, &at, error));
    FF_TRY(ff_dataset_know_shard(reader->dataset, at.shard, &shard, error));
    ff_cache_refuse(shard->cache, shard->header.number, at.offset, at.bytes);
    return FF_OK;
}

/* What the cache has of a sample may be wrong, as after a power cut: the sample is fetched and read
 * once more. */
static ff_status locate_again(ff_reader *reader, uint64_t number, ff_view *view, ff_error *error) {
    ff_reader_find *find = reader->find;
    FF_TRY(ff_reader_refuse(reader, number, error));
    reader->slot = NULL;
    reader->find = NULL;
    const ff_status status = locate(reader, number, view, error);
    reader->find = find;
    return status;
}

ff_status ff_reader_locate(ff_reader *reader, uint64_t number, ff_view *view, ff_error *error) {
    const ff_status status = locate(reader, number, view, error);
    if (status != FF_BAD_DATA || !ff_dataset_sample_is_remote(reader->dataset, number))
        return status;
    return locate_again(reader, number, view, error);
}

ff_status ff_reader_sample(ff_reader *reader, uint64_t number, ff_view *view, ff_error *error) {
    FF_TRY(ff_reader_locate(reader, number, view, error));
    return view->mapped ? verify(reader, number, view, error) : FF_OK;
}

ff_status ff_view_copy(const ff_dataset *dataset, const ff_view *view, void *to, ff_error *error) {
    if (!view->mapped) {
        memcpy(to, view->tensor, view->tensor_bytes);
        return FF_OK;
    }
    const ff_shard *shard = &dataset->shard[view->entry.shard];
    return ff_mapped_copy(to, &shard->mapped, view->entry.offset, view->tensor_bytes, error);
}

/* The united number of a class, in the field's dtype. */
static ff_status united_class(ff_dataset *dataset, uint64_t number, size_t field, void *value,
                              ff_error *error) {
    int64_t wide;
    FF_TRY(ff_dataset_class(dataset, number, field, &wide, error));
    const int32_t narrow = (int32_t)wide;
    if (dataset->metadata.field[field].dtype == FF_I64)
        memcpy(value, &wide, sizeof wide);
    else
        memcpy(value, &narrow, sizeof narrow);
    return FF_OK;
}

ff_status ff_reader_label(ff_reader *reader, uint64_t number, size_t field, void *values,
                          ff_error *error) {
    ff_dataset *dataset = reader->dataset;
    const ff_metadata *metadata = &dataset->metadata;
    uint64_t bytes = ff_field_bytes(&metadata->field[field]);
    bool wide;
    uint64_t offset = ff_metadata_field_offset(metadata, field, 1, 1, &wide);
    if (dataset->united && metadata->field[field].kind == FF_FIELD_CLASS)
        return united_class(dataset, number, field, values, error);
    if (!wide) return ff_dataset_small_label(dataset, number, offset, values, bytes, error);
    ff_view view;
    FF_TRY(ff_reader_sample(reader, number, &view, error));
    offset = ff_metadata_field_offset(metadata, field, view.height, view.width, &wide);
    if (!view.mapped) {
        memcpy(values, (const uint8_t *)view.tensor + offset, bytes);
        return FF_OK;
    }
    const ff_shard *shard = &dataset->shard[view.entry.shard];
    return ff_mapped_copy(values, &shard->mapped, view.entry.offset + offset, bytes, error);
}
