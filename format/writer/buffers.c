#include "format/writer/buffers.h"

#include <string.h>

void ff_shard_rows_begin(ff_shard_rows *rows, const ff_shard *shard, int section,
                         size_t bytes_each) {
    rows->shard = shard;
    rows->section = section;
    rows->bytes_each = bytes_each;
    rows->first = rows->count = 0;
}

ff_status ff_shard_rows_get(ff_shard_rows *rows, uint64_t slot, const uint8_t **row,
                            ff_error *error) {
    const ff_shard *shard = rows->shard;
    if (rows->bytes_each && (slot < rows->first || slot - rows->first >= rows->count)) {
        const uint64_t left = shard->footer.sample_count - slot;
        const uint64_t most = FF_BUFFERS_BYTES / rows->bytes_each;
        rows->first = slot;
        rows->count = left < most ? left : most;
        FF_TRY(ff_mapped_copy(rows->bytes, &shard->mapped,
                              shard->footer.section[rows->section].offset + slot * rows->bytes_each,
                              rows->count * rows->bytes_each, error));
    }
    *row = rows->bytes + (slot - rows->first) * rows->bytes_each;
    return FF_OK;
}

ff_status ff_scatter_flush(ff_scatter *scatter, ff_error *error) {
    const size_t used = scatter->used;
    scatter->used = 0;
    return used ? ff_file_rewrite(scatter->file, scatter->offset, scatter->bytes, used, error)
                : FF_OK;
}

ff_status ff_scatter_put(ff_scatter *scatter, uint64_t offset, const void *bytes, size_t length,
                         ff_error *error) {
    if (scatter->used && (offset != scatter->offset + scatter->used ||
                          scatter->used + length > sizeof scatter->bytes))
        FF_TRY(ff_scatter_flush(scatter, error));
    if (!scatter->used) scatter->offset = offset;
    memcpy(scatter->bytes + scatter->used, bytes, length);
    scatter->used += length;
    return FF_OK;
}

ff_status ff_window_get(ff_window *window, uint64_t offset, size_t length, const uint8_t **at,
                        ff_error *error) {
    if (offset < window->offset || offset + length > window->offset + window->length) {
        const uint64_t left = ff_file_offset(window->file) - offset;
        const bool adjacent = offset > window->offset && offset <= window->offset + window->length;
        /* Far from the last read, as for keys of a shuffled set: read only what is needed. */
        const uint64_t wanted = adjacent || !window->length ? sizeof window->bytes : length;
        window->offset = offset;
        window->length = left < wanted ? left : wanted;
        FF_TRY(ff_file_read_back(window->file, offset, window->bytes, window->length, error));
    }
    *at = window->bytes + (offset - window->offset);
    return FF_OK;
}
