#include "format/reader/direct.h"

#include <stdlib.h>

struct ff_direct {
    ff_files *files;
    uint8_t *memory;
    uint64_t capacity;
};

ff_status ff_direct_open(ff_direct **out, ff_files *files, ff_error *error) {
    FF_TRY(ff_alloc(out, 1, sizeof **out, "a reader", error));
    (*out)->files = files;
    return FF_OK;
}

void ff_direct_close(ff_direct **out) {
    if (!*out) return;
    free((*out)->memory);
    free(*out);
    *out = NULL;
}

static ff_status reserve(ff_direct *direct, uint64_t bytes, ff_error *error) {
    if (direct->capacity >= bytes) return FF_OK;
    free(direct->memory);
    direct->memory = NULL;
    direct->capacity = 0;
    FF_TRY(ff_alloc_aligned(&direct->memory, bytes, 1, FF_READ_BLOCK, "a sample", error));
    direct->capacity = bytes;
    return FF_OK;
}

ff_status ff_direct_read(ff_direct *direct, const ff_shard *shard, uint32_t number, uint64_t offset,
                         uint64_t bytes, const uint8_t **out, ff_error *error) {
    const uint64_t begin = offset & ~(FF_READ_BLOCK - 1), wanted = offset + bytes - begin;
    FF_TRY(reserve(direct, ff_align_u64(wanted, FF_READ_BLOCK), error));
    FF_TRY(ff_files_read(direct->files, shard, number, begin, wanted, direct->memory, error));
    *out = direct->memory + (offset - begin);
    return FF_OK;
}
