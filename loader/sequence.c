#include "loader/sequence.h"

#include "loader/loader.h"

#include <inttypes.h>

#define BATCH_LIMIT (UINT64_C(1) << 30)

uint64_t ff_loader_share(uint64_t batch, uint32_t part, uint32_t total, bool pairs) {
    if (part >= total) return batch;
    const uint64_t row = batch * part / total;
    return pairs ? row & ~UINT64_C(1) : row;
}

static uint64_t batches_of(uint64_t samples, uint64_t batch, bool drop) {
    return samples / batch + (!drop && samples % batch != 0);
}

static ff_status count_batches(ff_sequence *sequence, ff_dataset *dataset,
                               const ff_loader_options *options, ff_error *error) {
    if (options->batch == 0 || options->batch > BATCH_LIMIT)
        return ff_fail(error, FF_USAGE, "a batch has 1 to %" PRIu64 " samples, not %" PRIu64,
                       BATCH_LIMIT, options->batch);
    if (options->position > sequence->count)
        return ff_fail(error, FF_USAGE,
                       "position %" PRIu64 " is after the end of %s with its %" PRIu64 " samples",
                       options->position, ff_dataset_path(dataset), sequence->count);
    bool drop = options->last_batch == FF_LAST_BATCH_DROP && sequence->count >= options->batch;
    sequence->batch = options->batch;
    sequence->epoch_batches = batches_of(sequence->count, sequence->batch, drop);
    sequence->first_epoch = options->epoch;
    sequence->first_position = options->position;
    sequence->first_batches =
        batches_of(sequence->count - options->position, sequence->batch, drop);
    uint64_t epochs = options->epochs;
    if (sequence->first_batches == 0) { /* stored after the last batch of an epoch */
        sequence->first_epoch++;
        sequence->first_position = 0;
        sequence->first_batches = options->epochs == 1 ? 0 : sequence->epoch_batches;
        if (epochs > 1) epochs--;
    }
    sequence->total_batches = UINT64_MAX;
    if (epochs)
        sequence->total_batches = sequence->first_batches + (epochs - 1) * sequence->epoch_batches;
    return FF_OK;
}

static ff_status take_share(ff_sequence *sequence, const ff_loader_options *options,
                            ff_error *error) {
    uint32_t begin = options->share_begin, end = options->share_end, total = options->share_total;
    if (total == 0) begin = 0, end = 1, total = 1;
    if (begin > end || end > total)
        return ff_fail(error, FF_USAGE, "parts %u to %u of %u are no share of a batch", begin, end,
                       total);
    const bool pairs = ff_augment_mixes(&options->augment);
    sequence->share_begin = ff_loader_share(sequence->batch, begin, total, pairs);
    sequence->rows =
        (uint32_t)(ff_loader_share(sequence->batch, end, total, pairs) - sequence->share_begin);
    return FF_OK;
}

ff_status ff_sequence_init(ff_sequence *sequence, ff_dataset *dataset,
                           const ff_loader_options *options, ff_error *error) {
    *sequence = (ff_sequence){.count = ff_dataset_count(dataset)};
    FF_TRY(count_batches(sequence, dataset, options, error));
    return take_share(sequence, options, error);
}
