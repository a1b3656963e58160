#include "tools/ffpack/source/parquet/runs.h"

static bool begin_run(ff_parquet_runs *runs) {
    uint64_t header = 0;
    for (int shift = 0;; shift += 7) {
        if (runs->at == runs->end || shift > 28) return false;
        header |= (uint64_t)(*runs->at & 0x7f) << shift;
        if (*runs->at++ < 0x80) break;
    }
    runs->packed = header & 1;
    const uint64_t count = header >> 1;
    const uint64_t bytes = runs->packed ? count * runs->width : (runs->width + 7) / 8;
    if (bytes > (uint64_t)(runs->end - runs->at)) return false;
    runs->values = runs->at;
    runs->at += bytes;
    runs->bit = 0;
    runs->left = runs->packed ? count * 8 : count;
    runs->value = 0;
    for (uint64_t i = 0; i < bytes && !runs->packed; i++)
        runs->value |= (uint32_t)runs->values[i] << (8 * i);
    return true;
}

bool ff_parquet_runs_next(ff_parquet_runs *runs, uint32_t *value) {
    while (!runs->left)
        if (!begin_run(runs)) return false;
    runs->left--;
    *value = runs->value;
    if (!runs->packed) return true;
    *value = 0;
    for (unsigned i = 0; i < runs->width; i++, runs->bit++)
        *value |= (uint32_t)(runs->values[runs->bit / 8] >> runs->bit % 8 & 1) << i;
    return true;
}
