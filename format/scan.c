/* Scans of the index, and the order of storage that one of them finds. */
#include "format/dataset.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void ff_dataset_advise(const ff_dataset *dataset, uint64_t offset, uint64_t bytes) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = offset - offset % page;
    if (offset >= dataset->bytes) return;
    if (bytes > dataset->bytes - offset) bytes = dataset->bytes - offset;
    /* Advice alone: without it each page is read when it is touched. */
    (void)madvise((void *)(uintptr_t)(dataset->map + begin), offset - begin + bytes, MADV_WILLNEED);
}

void ff_dataset_read_ahead(const ff_dataset *dataset, uint64_t number, int what) {
    const ff_section *section = dataset->header.section;
    const uint64_t count = dataset->header.sample_count;
    /* The first call has nothing before it that read its window. */
    const uint64_t first = number ? number + FF_SCAN_WINDOW : 0;
    uint64_t samples = number ? FF_SCAN_WINDOW : 2 * FF_SCAN_WINDOW;
    if (first >= count) return;
    if (samples > count - first) samples = count - first;
    if (what & FF_SCAN_ENTRIES)
        ff_dataset_advise(dataset, section[FF_INDEX_ENTRIES].offset + first * FF_ENTRY_BYTES,
                          samples * FF_ENTRY_BYTES);
    if (what & FF_SCAN_LABELS)
        ff_dataset_advise(dataset, section[FF_INDEX_LABELS].offset + first * dataset->row_bytes,
                          samples * dataset->row_bytes);
}

/* ---- the order of storage -------------------------------------------------------------------- */

typedef struct storage_place {
    uint64_t offset, number;
    uint32_t shard;
} storage_place;

static int compare_places(const void *a, const void *b) {
    const storage_place *left = a, *right = b;
    if (left->shard != right->shard) return left->shard < right->shard ? -1 : 1;
    return (left->offset > right->offset) - (left->offset < right->offset);
}

ff_status ff_dataset_storage_order(ff_dataset *dataset, uint64_t **number, ff_error *error) {
    uint64_t count = ff_dataset_count(dataset);
    storage_place *places;
    *number = NULL;
    FF_TRY(ff_alloc(&places, count, sizeof *places, "the order of storage", error));
    ff_status status = FF_OK;
    bool sorted = true;
    for (uint64_t i = 0; i < count && status == FF_OK; i++) {
        ff_entry entry;
        ff_dataset_scan(dataset, i, FF_SCAN_ENTRIES);
        status = ff_dataset_entry(dataset, i, &entry, error);
        places[i] = (storage_place){.shard = entry.shard, .offset = entry.offset, .number = i};
        if (i && compare_places(&places[i - 1], &places[i]) > 0) sorted = false;
    }
    if (status == FF_OK && !sorted) {
        qsort(places, count, sizeof *places, compare_places);
        status = ff_alloc(number, count, sizeof **number, "the order of storage", error);
        for (uint64_t i = 0; status == FF_OK && i < count; i++) (*number)[i] = places[i].number;
    }
    free(places);
    return status;
}
