/* The sequence of a run's batches: the position of batch number `number`. One source for host (C11)
 * and CUDA C, integers only. Pure. */
#ifndef FF_LOADER_SEQUENCE_H
#define FF_LOADER_SEQUENCE_H

#include "loader/sequence/philox.h"

/* The first epoch has `first_batches` batches, from cut `first_cut` of the global batch at
 * `first_position` on; each further epoch has `epoch_batches`. */
typedef struct ff_sequence {
    uint64_t count; /* samples of the dataset */
    uint64_t batch; /* samples of a global batch */
    uint64_t first_position;
    uint64_t first_batches, epoch_batches;
    uint64_t total_batches; /* UINT64_MAX = no end */
    uint64_t share_begin;   /* this share's rows of a global batch: [share_begin, + cuts * rows) */
    uint32_t cuts;          /* consecutive batches into which the share is cut */
    uint32_t rows;          /* rows of each cut */
    uint32_t first_epoch;
    uint32_t first_cut;
} ff_sequence;

typedef struct ff_sequence_batch {
    uint64_t global_position; /* position in its epoch of the global batch's first sample */
    uint64_t position;        /* position of this batch's first row */
    uint32_t global_count;
    uint32_t count; /* samples of this batch before the padding */
    uint32_t epoch;
    uint32_t cut;  /* its number among the cuts of its global batch */
    uint32_t last; /* 1 = its epoch's last batch */
} ff_sequence_batch;

FF_HD ff_sequence_batch ff_sequence_at(const ff_sequence *sequence, uint64_t number) {
    ff_sequence_batch batch;
    uint64_t batches = sequence->first_cut + sequence->first_batches;
    batch.epoch = sequence->first_epoch;
    batch.global_position = sequence->first_position;
    if (number >= sequence->first_batches) {
        uint64_t after = number - sequence->first_batches;
        batch.epoch += (uint32_t)(1 + after / sequence->epoch_batches);
        batch.global_position = 0;
        number = after % sequence->epoch_batches;
        batches = sequence->epoch_batches;
    } else {
        number += sequence->first_cut;
    }
    batch.cut = (uint32_t)(number % sequence->cuts);
    batch.last = number + 1 == batches;
    batch.global_position += number / sequence->cuts * sequence->batch;
    uint64_t left = sequence->count - batch.global_position;
    batch.global_count = (uint32_t)(left < sequence->batch ? left : sequence->batch);
    /* The cuts are those of a full batch, so a share's shape never changes. */
    uint64_t begin = sequence->share_begin + (uint64_t)batch.cut * sequence->rows;
    batch.position = batch.global_position + begin;
    uint64_t before = begin < batch.global_count ? begin : batch.global_count;
    uint64_t here = batch.global_count - before;
    batch.count = (uint32_t)(here < sequence->rows ? here : sequence->rows);
    return batch;
}

#endif
