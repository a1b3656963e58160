/* Fills rows of a slot: from positions to samples, parameters, tensors, labels. Private to loader/.
 */
#ifndef FF_LOADER_GATHER_H
#define FF_LOADER_GATHER_H

#include "loader/host/ahead/ahead.h"

/* Per-thread state. ahead: the thread's place in what is read ahead; NULL = nothing is read
 * ahead. */
typedef struct ff_gatherer ff_gatherer;
FF_MUST_USE ff_status ff_gatherer_create(ff_gatherer **gatherer, const ff_loader_settings *settings,
                                         ff_ahead *ahead, ff_error *error);
void ff_gatherer_destroy(ff_gatherer **gatherer);

/* Whether samples are mapped: not with settings->direct, nor if part of the set was removed from
 * the cache. */
bool ff_gatherer_maps(const ff_gatherer *gatherer);

/* Fills rows [begin, end) of `batch`, number `number` of the sequence, in host memory laid out by
 * the settings. On failure *failed_row is the row whose sample could not be read; rows before it
 * are filled. */
FF_MUST_USE ff_status ff_gather(ff_gatherer *gatherer, uint64_t number,
                                const ff_sequence_batch *batch, uint8_t *memory,
                                ff_slot_source *source, ff_augment_params *params, uint32_t begin,
                                uint32_t end, uint32_t *failed_row, ff_error *error);

#endif
