/* Reads pages of mapped shards into memory before they are needed. */
#include "format/base/guard.h"
#include "format/reader/dataset.h"

#include <sys/mman.h>
#include <unistd.h>

/* The kernel follows one piece of advice up to the device's read-ahead (128 KiB by default). */
#define ADVICE_BYTES (UINT64_C(128) << 10)

static const uint8_t *page_of(const ff_shard *shard, uint64_t offset) {
    return shard->mapped.map + (offset - offset % (uint64_t)sysconf(_SC_PAGESIZE));
}

bool ff_dataset_has_page(ff_dataset *dataset, uint32_t number, uint64_t offset) {
    const ff_shard *shard;
    unsigned char resident = 1;
    if (ff_dataset_open_shard(dataset, number, &shard, NULL) != FF_OK || offset >= shard->bytes)
        return true;
    return mincore((void *)(uintptr_t)page_of(shard, offset), 1, &resident) != 0 || resident & 1;
}

void ff_dataset_fetch(ff_dataset *dataset, uint32_t number, uint64_t offset, uint64_t bytes) {
    const ff_shard *shard;
    if (ff_dataset_open_shard(dataset, number, &shard, NULL) != FF_OK || offset >= shard->bytes)
        return;
    if (bytes > shard->bytes - offset) bytes = shard->bytes - offset;
    for (uint64_t at = offset; at < offset + bytes; at += ADVICE_BYTES) {
        const uint64_t left = offset + bytes - at;
        (void)madvise((void *)(uintptr_t)page_of(shard, at),
                      left < ADVICE_BYTES ? left : ADVICE_BYTES, MADV_WILLNEED);
    }
}

static void touch(void *byte) {
    (void)*(const volatile uint8_t *)byte;
}

void ff_dataset_await_page(ff_dataset *dataset, uint32_t number, uint64_t offset) {
    const ff_shard *shard;
    if (ff_dataset_open_shard(dataset, number, &shard, NULL) == FF_OK && offset < shard->bytes) {
        ff_guard_check();
        (void)!ff_guard_run(touch, (void *)(uintptr_t)(shard->mapped.map + offset));
    }
}
