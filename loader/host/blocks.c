#include "loader/host/blocks.h"

#include "format/base/memory.h"

#include <pthread.h>
#include <stdlib.h>

struct ff_blocks {
    pthread_mutex_t mutex;
    uint64_t bytes, allocated;
    uint64_t taken; /* that have an owner */
    uint32_t unused_count, unused_most;
    bool closed;
    void *unused[]; /* [unused_most] */
};

ff_status ff_blocks_create(ff_blocks **out, uint64_t bytes, uint32_t unused_most, ff_error *error) {
    ff_blocks *blocks;
    *out = NULL;
    FF_TRY(ff_alloc(&blocks, 1, sizeof *blocks + unused_most * sizeof *blocks->unused, "blocks",
                    error));
    pthread_mutex_init(&blocks->mutex, NULL);
    blocks->bytes = bytes;
    blocks->unused_most = unused_most;
    *out = blocks;
    return FF_OK;
}

static void destroy(ff_blocks *blocks) {
    pthread_mutex_destroy(&blocks->mutex);
    free(blocks);
}

void ff_blocks_close(ff_blocks **out) {
    ff_blocks *blocks = *out;
    if (!blocks) return;
    pthread_mutex_lock(&blocks->mutex);
    blocks->closed = true;
    while (blocks->unused_count) free(blocks->unused[--blocks->unused_count]);
    const bool last = !blocks->taken;
    pthread_mutex_unlock(&blocks->mutex);
    if (last) destroy(blocks);
    *out = NULL;
}

ff_status ff_blocks_take(ff_blocks *blocks, void **block, ff_error *error) {
    ff_status status = FF_OK;
    *block = NULL;
    pthread_mutex_lock(&blocks->mutex);
    if (blocks->unused_count) *block = blocks->unused[--blocks->unused_count];
    blocks->taken++;
    pthread_mutex_unlock(&blocks->mutex);
    if (*block) return FF_OK;
    status = ff_alloc_for_disk(block, blocks->bytes, "a batch", error);
    pthread_mutex_lock(&blocks->mutex);
    if (status == FF_OK)
        blocks->allocated++;
    else
        blocks->taken--;
    pthread_mutex_unlock(&blocks->mutex);
    return status;
}

void ff_blocks_give(ff_blocks *blocks, void *block) {
    pthread_mutex_lock(&blocks->mutex);
    const bool keeps = !blocks->closed && blocks->unused_count < blocks->unused_most;
    if (keeps) blocks->unused[blocks->unused_count++] = block;
    blocks->taken--;
    const bool last = blocks->closed && !blocks->taken;
    pthread_mutex_unlock(&blocks->mutex);
    if (!keeps) free(block);
    if (last) destroy(blocks);
}

uint64_t ff_blocks_allocated(ff_blocks *blocks) {
    pthread_mutex_lock(&blocks->mutex);
    const uint64_t allocated = blocks->allocated;
    pthread_mutex_unlock(&blocks->mutex);
    return allocated;
}
