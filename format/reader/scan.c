/* Scans of the index, and the storage order, which a scan finds. */
#include "format/cli/host_memory.h"
#include "format/cli/say.h"
#include "format/reader/index.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void ff_dataset_advise(const ff_dataset *dataset, uint64_t offset, uint64_t bytes) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = offset - offset % page;
    if (offset >= dataset->bytes) return;
    if (bytes > dataset->bytes - offset) bytes = dataset->bytes - offset;
    /* Only advice: without it each page is read when it is touched. */
    (void)madvise((void *)(uintptr_t)(dataset->index.map + begin), offset - begin + bytes,
                  MADV_WILLNEED);
}

/* The parts `what` of the index of samples first .. first + samples - 1. */
static void advise(const ff_dataset *dataset, uint64_t first, uint64_t samples, int what) {
    const ff_section *section = dataset->header.section;
    for (size_t i = 0; i < dataset->united_count; i++) {
        const ff_united *own = &dataset->united[i];
        const uint64_t from = first > own->first_sample ? first : own->first_sample;
        const uint64_t end =
            first + samples < own[1].first_sample ? first + samples : own[1].first_sample;
        if (from < end) advise(own->set, from - own->first_sample, end - from, what);
    }
    if (dataset->united) return;
    const ff_section *entries = &section[FF_INDEX_ENTRIES], *labels = &section[FF_INDEX_LABELS];
    if (what & FF_SCAN_ENTRIES) {
        if (!first) ff_index_bring(dataset, entries->offset, entries->bytes);
        ff_dataset_advise(dataset, entries->offset + first * FF_ENTRY_BYTES,
                          samples * FF_ENTRY_BYTES);
    }
    if (what & FF_SCAN_LABELS) {
        if (!first) ff_index_bring(dataset, labels->offset, labels->bytes);
        ff_dataset_advise(dataset, labels->offset + first * dataset->row_bytes,
                          samples * dataset->row_bytes);
    }
}

void ff_dataset_read_ahead(const ff_dataset *dataset, uint64_t number, int what) {
    const uint64_t count = dataset->header.sample_count;
    /* No earlier call has requested the first call's own window. */
    const uint64_t first = number ? number + FF_SCAN_WINDOW : 0;
    uint64_t samples = number ? FF_SCAN_WINDOW : 2 * FF_SCAN_WINDOW;
    if (first >= count) return;
    if (samples > count - first) samples = count - first;
    advise(dataset, first, samples, what);
}

/* ---- the order of storage -------------------------------------------------------------------- */

/* A sample by its place in its shard: the offset in units of the set's alignment. */
typedef struct place {
    uint64_t unit, number;
} place;

/* Used while the order is made: for each shard the places of its samples, at first in the order of
 * their numbers. number and unit: arrays [count] of 4 or 8 bytes per element. */
typedef struct sorter {
    ff_dataset *dataset;
    bool wide;
    void *number, *unit;
    uint64_t *next; /* [shards]: place of the shard's next sample */
    place *places;  /* [samples of the largest shard] */
} sorter;

static void put(void *array, bool wide, uint64_t at, uint64_t value) {
    if (wide)
        ((uint64_t *)array)[at] = value;
    else
        ((uint32_t *)array)[at] = (uint32_t)value;
}

static uint64_t get(const void *array, bool wide, uint64_t at) {
    return wide ? ((const uint64_t *)array)[at] : ((const uint32_t *)array)[at];
}

static ff_status look(ff_dataset *dataset, bool *sorted, bool *wide, ff_error *error) {
    const uint64_t count = dataset->header.sample_count;
    ff_entry before = {0};
    *sorted = true;
    *wide = count > UINT32_MAX;
    for (uint64_t i = 0; i < count; i++) {
        ff_entry entry;
        ff_dataset_scan(dataset, i, FF_SCAN_ENTRIES);
        FF_TRY(ff_dataset_entry(dataset, i, &entry, error));
        *sorted &= entry.shard > before.shard ||
                   (entry.shard == before.shard && entry.offset >= before.offset);
        *wide |= entry.offset / dataset->metadata.alignment > UINT32_MAX;
        before = entry;
    }
    return FF_OK;
}

static ff_status distribute(sorter *s, ff_error *error) {
    ff_dataset *dataset = s->dataset;
    uint64_t end = 0;
    for (uint32_t i = 0; i < dataset->header.shard_count; i++) {
        s->next[i] = end;
        end += dataset->row[i].sample_count;
    }
    for (uint64_t i = 0; i < dataset->header.sample_count; i++) {
        ff_entry entry;
        ff_dataset_scan(dataset, i, FF_SCAN_ENTRIES);
        FF_TRY(ff_dataset_entry(dataset, i, &entry, error));
        const uint64_t at = s->next[entry.shard]++;
        if (at >= end)
            return ff_fail(error, FF_BAD_DATA, "%s: entries name other shards than the table has",
                           dataset->index_path);
        put(s->number, s->wide, at, i);
        put(s->unit, s->wide, at, entry.offset / dataset->metadata.alignment);
    }
    for (uint32_t i = 0; i < dataset->header.shard_count; i++) {
        s->next[i] -= dataset->row[i].sample_count;
        if (s->next[i] != (i ? s->next[i - 1] + dataset->row[i - 1].sample_count : 0))
            return ff_fail(error, FF_BAD_DATA,
                           "%s: its entries name shard %u more or less often than it has samples",
                           dataset->index_path, i);
    }
    return FF_OK;
}

static int compare_places(const void *a, const void *b) {
    const place *left = a, *right = b;
    return (left->unit > right->unit) - (left->unit < right->unit);
}

static void sort_shard(sorter *s, uint32_t shard) {
    const uint64_t count = s->dataset->row[shard].sample_count, first = s->next[shard];
    for (uint64_t i = 0; i < count; i++)
        s->places[i] =
            (place){get(s->unit, s->wide, first + i), get(s->number, s->wide, first + i)};
    qsort(s->places, count, sizeof *s->places, compare_places);
    for (uint64_t i = 0; i < count; i++) put(s->number, s->wide, first + i, s->places[i].number);
}

/* Allocates the arrays of `count` elements if there is memory for both. */
static ff_status allocate(sorter *s, uint64_t bytes, ff_error *error) {
    const ff_dataset *dataset = s->dataset;
    const uint32_t shards = dataset->header.shard_count;
    const ff_host_memory left = ff_host_memory_left("");
    uint64_t largest = 0;
    for (uint32_t i = 0; i < shards; i++)
        if (dataset->row[i].sample_count > largest) largest = dataset->row[i].sample_count;
    const uint64_t all = 2 * bytes + largest * sizeof *s->places + shards * sizeof *s->next;
    if (all > left.bytes)
        return ff_fail(error, FF_NO_MEMORY,
                       "%s: the order of its samples in storage takes %s of memory, and %s is %s; "
                       "a set packed without --shuffle needs none",
                       dataset->path, ff_say_bytes(all).text, ff_say_bytes(left.bytes).text,
                       left.limit);
    FF_TRY(ff_alloc(&s->number, bytes, 1, "the order of storage", error));
    FF_TRY(ff_alloc(&s->unit, bytes, 1, "the order of storage", error));
    FF_TRY(ff_alloc(&s->places, largest, sizeof *s->places, "the order of storage", error));
    return ff_alloc(&s->next, shards, sizeof *s->next, "the order of storage", error);
}

ff_status ff_storage_order_make(ff_dataset *dataset, bool wide, ff_storage_order *order,
                                ff_error *error) {
    sorter s = {.dataset = dataset, .wide = wide};
    ff_status status;
    order->bytes = dataset->header.sample_count * (wide ? sizeof(uint64_t) : sizeof(uint32_t));
    FF_TRY_DONE(allocate(&s, order->bytes, error));
    FF_TRY_DONE(distribute(&s, error));
    for (uint32_t i = 0; i < dataset->header.shard_count; i++) sort_shard(&s, i);
    if (wide)
        order->wide = s.number;
    else
        order->narrow = s.number;
    s.number = NULL;
done:
    if (status != FF_OK) *order = (ff_storage_order){0};
    free(s.number);
    free(s.unit);
    free(s.places);
    free(s.next);
    return status;
}

ff_status ff_dataset_storage_order(ff_dataset *dataset, ff_storage_order *order, ff_error *error) {
    bool sorted, wide;
    *order = (ff_storage_order){0};
    FF_TRY(look(dataset, &sorted, &wide, error));
    return sorted ? FF_OK : ff_storage_order_make(dataset, wide, order, error);
}

void ff_storage_order_free(ff_storage_order *order) {
    free(order->narrow);
    free(order->wide);
    ff_proof_free(order->proof);
    *order = (ff_storage_order){0};
}
