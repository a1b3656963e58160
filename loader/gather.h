/* Fills rows of a slot: from positions to samples, parameters, tensors, labels. Private to loader/.
 */
#ifndef FF_LOADER_GATHER_H
#define FF_LOADER_GATHER_H

#include "loader/settings.h"

/* A thread's own state. */
typedef struct ff_gatherer ff_gatherer;
FF_MUST_USE ff_status ff_gatherer_create(ff_gatherer **gatherer, const ff_loader_settings *settings,
                                         ff_error *error);
void ff_gatherer_destroy(ff_gatherer **gatherer);

/* The rows [begin, end) of the batch at `batch`, into host memory laid out as the settings says. On
 * failure *failed_row is the row whose sample could not be had; rows before it are filled. */
FF_MUST_USE ff_status ff_gather(ff_gatherer *gatherer, const ff_sequence_batch *batch,
                                uint8_t *memory, ff_slot_source *source, ff_augment_params *params,
                                uint32_t begin, uint32_t end, uint32_t *failed_row,
                                ff_error *error);

#endif
