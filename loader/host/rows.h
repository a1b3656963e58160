/* Which samples are in the rows of a loader's batches. Private to loader/. Thread rule: an ff_rows
 * belongs to one thread. */
#ifndef FF_LOADER_ROWS_H
#define FF_LOADER_ROWS_H

#include "loader/host/settings.h"

/* {.settings = ...} is ready to use. */
typedef struct ff_rows {
    const ff_loader_settings *settings;
    ff_order order; /* of `epoch` */
    uint32_t epoch;
    bool ready;
} ff_rows;

/* Before the rows of a batch are asked for. */
static inline void ff_rows_begin(ff_rows *rows, const ff_sequence_batch *batch) {
    if (rows->ready && rows->epoch == batch->epoch) return;
    ff_order_init(&rows->order, &rows->settings->order, batch->epoch);
    rows->epoch = batch->epoch;
    rows->ready = true;
}

/* The order's place that row `row` < batch->count has. */
static inline uint64_t ff_rows_place(const ff_rows *rows, const ff_sequence_batch *batch,
                                     uint32_t row) {
    return ff_sampling_at(&rows->settings->sampling, &rows->order, rows->epoch,
                          batch->position + row);
}

/* Proves the places of `count` rows from `row` on: then ff_rows_sample is right. */
static inline ff_status ff_rows_prove(const ff_rows *rows, const ff_sequence_batch *batch,
                                      uint32_t row, uint32_t count, ff_error *error) {
    const ff_storage_order *storage = &rows->settings->storage;
    for (uint32_t i = 0; storage->proof && i < count; i++)
        FF_TRY(ff_storage_order_prove(storage, ff_rows_place(rows, batch, row + i), error));
    return FF_OK;
}

/* The number of the sample in that row. */
static inline uint64_t ff_rows_sample(const ff_rows *rows, const ff_sequence_batch *batch,
                                      uint32_t row) {
    return ff_storage_order_at(&rows->settings->storage, ff_rows_place(rows, batch, row));
}

#endif
