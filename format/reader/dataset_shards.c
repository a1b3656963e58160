/* The shards of an open dataset, each opened and mapped at its first use. */
#include "format/reader/dataset.h"

#include "format/base/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

ff_status ff_dataset_fault(const ff_dataset *dataset, const void *address, ff_error *error) {
    const uint8_t *at = address;
    const char *path = dataset->index_path;
    uint64_t offset = (uint64_t)(at - dataset->index.map);
    for (uint32_t i = 0; i < dataset->header.shard_count; i++) {
        const ff_shard *shard = &dataset->shard[i];
        if (atomic_load(&dataset->shard_ready[i]) != FF_SHARD_MAPPED) continue;
        if (at < shard->mapped.map || at >= shard->mapped.map + shard->bytes) continue;
        path = shard->path;
        offset = (uint64_t)(at - shard->mapped.map);
    }
    if (path == dataset->index_path && offset >= dataset->bytes)
        return ff_fail(error, FF_IO, "%s: a file: " FF_MAPPED_FAILED, dataset->path);
    return ff_fail(error, FF_IO, "%s: offset %" PRIu64 ": " FF_MAPPED_FAILED, path, offset);
}

bool ff_dataset_is_whole(const ff_dataset *dataset, uint32_t shard) {
    return ff_mapped_is_whole(&dataset->shard[shard].mapped);
}

/* The tables of a compressed shard are read through its mapping, its samples are not: so a fault
 * reads nothing around a table. That would be a device's whole read-ahead, MiBs of a small shard.
 */
static void ask_for_tables(const ff_shard *shard) {
    static const int section[] = {FF_SHARD_FRAMES, FF_SHARD_RECORDS};
    uint8_t *map = (uint8_t *)(uintptr_t)shard->mapped.map;
    (void)madvise(map, shard->bytes, MADV_RANDOM);
    for (size_t i = 0; i < sizeof section / sizeof *section; i++) {
        const ff_section *at = &shard->footer.section[section[i]];
        const uint64_t begin = at->offset & ~(FF_READ_BLOCK - 1);
        (void)madvise(map + begin, at->offset + at->bytes - begin, MADV_WILLNEED);
    }
}

/* Fetches what opening a shard reads, if the set lies behind a URL. */
static ff_status fetch_shard(const ff_dataset *dataset, uint32_t number, bool maps,
                             ff_error *error) {
    if (dataset->united) {
        const ff_united *own = &dataset->united[ff_united_at_shard(dataset, number)];
        return fetch_shard(own->set, number - own->first_shard, maps, error);
    }
    if (!dataset->remote) return FF_OK;
    const bool compressed = dataset->metadata.compression == FF_COMPRESSION_ZSTD;
    return ff_remote_shard(dataset->remote, number, compressed, maps, error);
}

/* What the cache has of the shard's ends may be wrong, as after a power cut. */
static ff_status fetch_again(const ff_dataset *dataset, uint32_t number, ff_error *error) {
    if (!dataset->united) return ff_remote_shard_again(dataset->remote, number, error);
    const ff_united *own = &dataset->united[ff_united_at_shard(dataset, number)];
    return fetch_again(own->set, number - own->first_shard, error);
}

static bool is_remote(const ff_dataset *dataset, uint32_t number) {
    if (!dataset->united) return dataset->remote != NULL;
    return dataset->united[ff_united_at_shard(dataset, number)].set->remote != NULL;
}

/* ff_dataset_own_shard after fetch_shard. */
static ff_status open_shard(const ff_dataset *dataset, uint32_t number, bool maps, ff_shard *shard,
                            ff_error *error) {
    if (dataset->united) {
        const ff_united *own = &dataset->united[ff_united_at_shard(dataset, number)];
        return open_shard(own->set, number - own->first_shard, maps, shard, error);
    }
    const ff_shard_row *row = &dataset->row[number];
    const bool compressed = dataset->metadata.compression == FF_COMPRESSION_ZSTD;
    ff_status status = maps || compressed ? ff_shard_open(shard, dataset->path, number, error)
                                          : ff_shard_look(shard, dataset->path, number, error);
    if (dataset->remote) {
        const char *url = ff_remote_url(dataset->remote);
        if (status == FF_OK) status = ff_shard_call(shard, url, error);
        if (status == FF_BAD_DATA) ff_fail_within(error, status, "%s", url);
    }
    if (status == FF_OK &&
        (shard->footer.checksum != row->footer_checksum || shard->bytes != row->file_bytes ||
         shard->footer.sample_count != row->sample_count || shard->header.compressed != compressed))
        status = ff_fail(error, FF_BAD_DATA,
                         "%s: is another shard than the index names (footer %016" PRIx64
                         ", wanted %016" PRIx64 ")",
                         shard->path, shard->footer.checksum, row->footer_checksum);
    if (status == FF_OK && compressed && !maps) ask_for_tables(shard);
    if (status == FF_OK && dataset->remote) shard->cache = ff_remote_cache(dataset->remote);
    /* These two sections locate frames and their slots. */
    if (status == FF_OK && compressed)
        status = ff_shard_check_section(shard, FF_SHARD_FRAMES, error);
    if (status == FF_OK && compressed)
        status = ff_shard_check_section(shard, FF_SHARD_RECORDS, error);
    if (status != FF_OK) ff_shard_close(shard);
    return status;
}

ff_status ff_dataset_own_shard(const ff_dataset *dataset, uint32_t number, bool maps,
                               ff_shard *shard, ff_error *error) {
    FF_TRY(fetch_shard(dataset, number, maps, error));
    return open_shard(dataset, number, maps, shard, error);
}

ff_status ff_dataset_own_tables(const ff_dataset *dataset, uint32_t number, ff_shard *shard,
                                ff_error *error) {
    if (dataset->remote) FF_TRY(ff_remote_shard(dataset->remote, number, true, false, error));
    return open_shard(dataset, number, true, shard, error);
}

/* The caller holds the mutex. */
static ff_status ready_shard(ff_dataset *dataset, uint32_t number, bool maps, ff_error *error) {
    ff_shard *shard = &dataset->shard[number];
    const bool known = atomic_load(&dataset->shard_ready[number]) == FF_SHARD_KNOWN;
    FF_TRY(known ? ff_shard_map(shard, error) : open_shard(dataset, number, maps, shard, error));
    atomic_store_explicit(&dataset->shard_ready[number],
                          shard->mapped.map ? FF_SHARD_MAPPED : FF_SHARD_KNOWN,
                          memory_order_release);
    return FF_OK;
}

/* Opening needs a descriptor for a moment; the open files may have taken the last one. */
static ff_status make_ready(ff_dataset *dataset, uint32_t number, bool maps, ff_error *error) {
    const unsigned char wanted = maps ? FF_SHARD_MAPPED : FF_SHARD_KNOWN;
    ff_status status;
    /* Without the mutex: threads wait for several shards at the same time. */
    do {
        errno = 0;
        status = fetch_shard(dataset, number, false, error);
    } while (ff_files_make_room(dataset->files, status));
    FF_TRY(status);
    pthread_mutex_lock(&dataset->mutex);
    while (atomic_load(&dataset->shard_ready[number]) < wanted) {
        errno = 0;
        status = ready_shard(dataset, number, maps, error);
        if (status != FF_OK && !ff_files_make_room(dataset->files, status)) break;
    }
    pthread_mutex_unlock(&dataset->mutex);
    return status;
}

/* ---- ends of shards behind URLs, ahead of their use ------------------------------------------ */

enum { ENDS_AT_ONCE = 16, WANTED_AT_ONCE = 64 };

typedef struct ends {
    const ff_dataset *dataset;
    uint32_t first;
} ends;

/* Whoever needs the shard reports the failure. */
static void fetch_end(void *context, size_t i) {
    const ends *job = context;
    (void)!fetch_shard(job->dataset, job->first + (uint32_t)i, false, NULL);
}

void ff_dataset_fetch_ends(ff_dataset *dataset, uint32_t number) {
    const uint32_t left = dataset->header.shard_count - number;
    const uint32_t count = left < ENDS_AT_ONCE ? left : ENDS_AT_ONCE;
    if (!dataset->remote || atomic_load_explicit(&dataset->shard_ready[number],
                                                 memory_order_acquire) != FF_SHARD_UNKNOWN)
        return;
    const uint64_t end = dataset->row[number].file_bytes;
    if (end && ff_cache_has(ff_remote_cache(dataset->remote), number, end - 1, 1)) return;
    (void)!ff_parallel_for((int)count, count, fetch_end, &(ends){dataset, number}, NULL);
}

typedef struct wanted_ends {
    const ff_dataset *dataset;
    uint32_t *shard;
} wanted_ends;

static void fetch_wanted(void *context, size_t i) {
    const wanted_ends *job = context;
    (void)!fetch_shard(job->dataset, job->shard[i], false, NULL);
}

static int compare_shards(const void *a, const void *b) {
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

void ff_dataset_bring_ends(ff_dataset *dataset, const uint64_t *number, size_t count) {
    wanted_ends job = {.dataset = dataset};
    size_t shards = 0, each = 0;
    ff_entry entry;
    if (!ff_dataset_is_remote(dataset) ||
        ff_alloc(&job.shard, count, sizeof *job.shard, "shards", NULL) != FF_OK)
        return;
    for (size_t i = 0; i < count; i++)
        if (ff_dataset_entry(dataset, number[i], &entry, NULL) == FF_OK)
            job.shard[shards++] = entry.shard;
    qsort(job.shard, shards, sizeof *job.shard, compare_shards);
    for (size_t i = 0; i < shards; i++)
        if (!each || job.shard[each - 1] != job.shard[i]) job.shard[each++] = job.shard[i];
    const int threads = each < WANTED_AT_ONCE ? (int)each : WANTED_AT_ONCE;
    if (each) (void)!ff_parallel_for(threads, each, fetch_wanted, &job, NULL);
    free(job.shard);
}

static ff_status need_shard(ff_dataset *dataset, uint32_t number, bool maps, const ff_shard **out,
                            ff_error *error) {
    const unsigned char wanted = maps ? FF_SHARD_MAPPED : FF_SHARD_KNOWN;
    *out = &dataset->shard[number];
    if (atomic_load_explicit(&dataset->shard_ready[number], memory_order_acquire) >= wanted)
        return FF_OK;
    const ff_status status = make_ready(dataset, number, maps, error);
    if (status != FF_BAD_DATA || !is_remote(dataset, number)) return status;
    FF_TRY(fetch_again(dataset, number, error));
    return make_ready(dataset, number, maps, error);
}

ff_status ff_dataset_open_shard(ff_dataset *dataset, uint32_t number, const ff_shard **shard,
                                ff_error *error) {
    return need_shard(dataset, number, true, shard, error);
}

ff_status ff_dataset_know_shard(ff_dataset *dataset, uint32_t number, const ff_shard **shard,
                                ff_error *error) {
    return need_shard(dataset, number, false, shard, error);
}
