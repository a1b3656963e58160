/* Batches that their consumers keep. Private to loader/library/. */
#ifndef FF_LOADER_LIBRARY_BATCH_H
#define FF_LOADER_LIBRARY_BATCH_H

#include "loader/library/plan.h"
#include "loader/library/pool.h"

/* Bytes of a batch with `tensors` tensors: a part of its block (plan.h). */
uint64_t ff_library_batch_bytes(size_t tensors);

/* Takes the memory of an acquired slot and makes a batch of it; the caller still releases the slot.
 * The batch has one user. */
FF_MUST_USE ff_status ff_library_batch_create(ffload_batch **batch, ff_loader *loader,
                                              ff_slot *slot, ff_library_plan *plan,
                                              ff_error *error);

/* The batch in a block of a GPU, whose record has room for it. The batch has one user. */
ffload_batch *ff_library_batch_on_gpu(ff_library_block *block, ff_library_plan *plan,
                                      const ffload_batch_info *info);

ffload_batch_info ff_library_batch_info(uint32_t rows, uint32_t count, uint32_t epoch, bool last,
                                        uint64_t index, uint64_t position, uint64_t global_count);

#endif
