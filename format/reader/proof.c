/* A storage order that is proven place by place: the first batch of a large set behind a URL does
 * not wait for the entries of all samples.
 *
 * Raw samples of one size follow one another in their shards (FORMAT.md, Shard), so an entry's
 * shard and offset tell the place of its sample. If the entry of number p names place p, then p is
 * the number there, whatever the other entries say. */
#include "format/reader/index.h"

#include <stdlib.h>

struct ff_proof {
    ff_dataset *dataset;
    uint64_t slot_bytes;
    uint64_t *first;       /* [shards]: the place of a shard's first sample */
    pthread_mutex_t mutex; /* while all entries are read */
    atomic_bool known;     /* `all` is there */
    ff_storage_order all;
};

static bool is_known(const ff_proof *proof) {
    return atomic_load_explicit(&proof->known, memory_order_acquire);
}

static bool can_prove(const ff_dataset *dataset) {
    const ff_metadata *metadata = &dataset->metadata;
    return dataset->remote && metadata->compression == FF_COMPRESSION_NONE &&
           !metadata->variable_size && !ff_dataset_has_index(dataset);
}

ff_status ff_dataset_storage_order_later(ff_dataset *dataset, ff_storage_order *order,
                                         ff_error *error) {
    const ff_metadata *metadata = &dataset->metadata;
    ff_proof *proof;
    uint64_t end = 0;
    if (!can_prove(dataset)) return ff_dataset_storage_order(dataset, order, error);
    *order = (ff_storage_order){0};
    FF_TRY(ff_alloc(&proof, 1, sizeof *proof, "the order of storage", error));
    pthread_mutex_init(&proof->mutex, NULL);
    proof->dataset = dataset;
    proof->slot_bytes = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    order->proof = proof;
    const ff_status status = ff_alloc(&proof->first, dataset->header.shard_count,
                                      sizeof *proof->first, "the order of storage", error);
    if (status != FF_OK) ff_storage_order_free(order);
    FF_TRY(status);
    for (uint32_t i = 0; i < dataset->header.shard_count; i++) {
        proof->first[i] = end;
        end += dataset->row[i].sample_count;
    }
    return FF_OK;
}

void ff_proof_free(ff_proof *proof) {
    if (!proof) return;
    ff_storage_order_free(&proof->all);
    pthread_mutex_destroy(&proof->mutex);
    free(proof->first);
    free(proof);
}

uint64_t ff_proof_at(const ff_proof *proof, uint64_t place) {
    return is_known(proof) ? ff_storage_order_at(&proof->all, place) : place;
}

bool ff_proof_differs(const ff_proof *proof) {
    return is_known(proof) && ff_storage_order_differs(&proof->all);
}

ff_status ff_storage_order_settle(const ff_storage_order *order, ff_error *error) {
    ff_proof *proof = order->proof;
    ff_status status = FF_OK;
    if (!proof || is_known(proof)) return FF_OK;
    pthread_mutex_lock(&proof->mutex);
    if (!is_known(proof)) {
        status = ff_dataset_storage_order(proof->dataset, &proof->all, error);
        atomic_store_explicit(&proof->known, status == FF_OK, memory_order_release);
    }
    pthread_mutex_unlock(&proof->mutex);
    return status;
}

ff_status ff_storage_order_prove(const ff_storage_order *order, uint64_t place, ff_error *error) {
    const ff_proof *proof = order->proof;
    ff_entry entry;
    if (!proof || is_known(proof)) return FF_OK;
    FF_TRY(ff_dataset_entry(proof->dataset, place, &entry, error));
    const uint64_t first = proof->first[entry.shard], slot = place - first;
    if (place >= first && slot < proof->dataset->row[entry.shard].sample_count &&
        entry.offset == FF_HEADER_BYTES + slot * proof->slot_bytes)
        return FF_OK;
    return ff_storage_order_settle(order, error);
}
