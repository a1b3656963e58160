/* Where samples lie in shards, and the bytes there, for callers that read ahead of a reader. */
#include "format/reader/dataset.h"
#include "format/reader/frames.h"

#include <inttypes.h>

ff_status ff_dataset_extent(ff_dataset *dataset, uint64_t number, ff_extent *extent,
                            ff_error *error) {
    ff_entry entry;
    const ff_shard *shard;
    ff_frame frame;
    FF_TRY(ff_dataset_entry(dataset, number, &entry, error));
    ff_dataset_fetch_ends(dataset, entry.shard);
    FF_TRY(ff_dataset_know_shard(dataset, entry.shard, &shard, error));
    const ff_dataset *own = ff_united_with(dataset, &number);
    FF_TRY(ff_entry_check(&entry, &own->metadata, &shard->footer, own->index_path, number, error));
    *extent = (ff_extent){.offset = entry.offset,
                          .bytes = entry.bytes,
                          .slots = entry.offset,
                          .slots_bytes = entry.bytes,
                          .shard = entry.shard};
    if (dataset->metadata.compression != FF_COMPRESSION_ZSTD) return FF_OK;
    FF_TRY(ff_frame_at(shard, entry.offset, &frame, error));
    extent->offset = frame.file_offset;
    extent->bytes = frame.compressed_bytes;
    extent->slots = frame.payload_offset;
    extent->slots_bytes = frame.payload_bytes;
    return FF_OK;
}

/* A compressed shard's frames are only known when it is open. */
static void guess_in(const ff_dataset *dataset, const ff_entry *entry, ff_extent *extent) {
    const ff_metadata *metadata = &dataset->metadata;
    const ff_shard_row *row = &dataset->row[entry->shard];
    const uint64_t slot = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    const double share = (double)entry->offset / (double)(slot * row->sample_count + 1);
    extent->offset = (uint64_t)((double)(row->file_bytes - 1) * (share < 1 ? share : 1));
    extent->bytes = 1;
}

ff_status ff_dataset_extent_guess(ff_dataset *dataset, uint64_t number, ff_extent *extent,
                                  ff_error *error) {
    ff_entry entry;
    FF_TRY(ff_dataset_entry(dataset, number, &entry, error));
    const uint64_t whole = dataset->row[entry.shard].file_bytes;
    *extent = (ff_extent){.offset = entry.offset, .bytes = entry.bytes, .shard = entry.shard};
    if (dataset->metadata.compression == FF_COMPRESSION_ZSTD) {
        if (atomic_load(&dataset->shard_ready[entry.shard]) != FF_SHARD_UNKNOWN)
            return ff_dataset_extent(dataset, number, extent, error);
        guess_in(dataset, &entry, extent);
    }
    if (entry.bytes && extent->offset < whole && extent->bytes <= whole - extent->offset)
        return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: the entry of sample %" PRIu64 " is out of range",
                   dataset->index_path, number);
}

ff_status ff_dataset_read(ff_dataset *dataset, uint32_t shard, uint64_t offset, uint64_t bytes,
                          uint8_t *to, ff_error *error) {
    const ff_shard *from;
    FF_TRY(ff_dataset_know_shard(dataset, shard, &from, error));
    return ff_files_read(dataset->files, from, shard, offset, bytes, to, error);
}

ff_status ff_dataset_read_alone(ff_dataset *dataset, uint32_t shard, uint64_t offset,
                                uint64_t bytes, uint8_t *to, ff_error *error) {
    const ff_shard *from;
    FF_TRY(ff_dataset_know_shard(dataset, shard, &from, error));
    const uint32_t own = from->header.number;
    if (!from->cache || ff_cache_has(from->cache, own, offset, bytes))
        return ff_files_read(dataset->files, from, shard, offset, bytes, to, error);
    return ff_cache_read_past(from->cache, own, offset, bytes, to, error);
}

ff_status ff_dataset_bring(ff_dataset *dataset, uint32_t shard, uint64_t offset, uint64_t bytes,
                           ff_error *error) {
    const ff_shard *from;
    FF_TRY(ff_dataset_know_shard(dataset, shard, &from, error));
    return ff_files_bring(dataset->files, from, offset, bytes, error);
}

void ff_dataset_foresee(ff_dataset *dataset, ff_dataset_next *next, void *context) {
    for (size_t i = 0; i < dataset->united_count; i++) {
        const ff_united *own = &dataset->united[i];
        if (own->set->remote) ff_remote_foresee(own->set->remote, next, context, own->first_shard);
    }
    if (dataset->remote) ff_remote_foresee(dataset->remote, next, context, 0);
}

/* All that readers need of a shard behind a URL: its ends and its samples. */
static bool has_shard(ff_dataset *dataset, uint32_t number) {
    const ff_cache *cache = ff_remote_cache(dataset->remote);
    const uint64_t bytes = dataset->row[number].file_bytes;
    const ff_shard *shard;
    if (ff_cache_has(cache, number, 0, bytes)) return true;
    return ff_cache_has(cache, number, 0, 1) && ff_cache_has(cache, number, bytes - 1, 1) &&
           ff_dataset_know_shard(dataset, number, &shard, NULL) == FF_OK &&
           ff_cache_has(cache, number, 0, shard->footer.samples_end);
}

bool ff_dataset_is_here(ff_dataset *dataset) {
    for (size_t i = 0; i < dataset->united_count; i++)
        if (!ff_dataset_is_here(dataset->united[i].set)) return false;
    for (uint32_t i = 0; dataset->remote && i < dataset->header.shard_count; i++)
        if (!has_shard(dataset, i)) return false;
    return true;
}

uint64_t ff_dataset_removals(const ff_dataset *dataset) {
    uint64_t all = 0;
    for (size_t i = 0; i < dataset->united_count; i++)
        all += ff_dataset_removals(dataset->united[i].set);
    return all + (dataset->remote ? ff_cache_removals(ff_remote_cache(dataset->remote)) : 0);
}
