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

/* The number of the sample in row `row` < batch->count. */
static inline uint64_t ff_rows_sample(const ff_rows *rows, const ff_sequence_batch *batch,
                                      uint32_t row) {
    const ff_loader_settings *settings = rows->settings;
    const uint64_t place =
        ff_sampling_at(&settings->sampling, &rows->order, rows->epoch, batch->position + row);
    return ff_storage_order_at(&settings->storage, place);
}

#endif
