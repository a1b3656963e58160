#include "loader/library/batch.h"

#include "loader/library/status.h"

#include <stdlib.h>
#include <string.h>

struct ffload_batch {
    atomic_size_t users; /* the caller, exported tensors */
    int process;
    ff_library_plan *plan;
    ff_blocks *blocks; /* whose memory it is, and this is in */
    uint8_t *block;
    ffload_batch_info info;
    ff_library_tensor tensor[]; /* [plan->count] */
};

uint64_t ff_library_batch_bytes(size_t tensors) {
    return sizeof(ffload_batch) + tensors * sizeof(ff_library_tensor);
}

/* ---- making --------------------------------------------------------------------------------- */

ffload_batch_info ff_library_batch_info(uint32_t rows, uint32_t count, uint32_t epoch, bool last,
                                        uint64_t index, uint64_t position, uint64_t global_count) {
    return (ffload_batch_info){.rows = rows,
                               .count = count,
                               .epoch = epoch,
                               .last = last,
                               .index = index,
                               .position = position,
                               .global_count = global_count};
}

static void fill_samples(int64_t *samples, const ff_slot *slot) {
    for (uint32_t row = 0; row < slot->rows; row++)
        samples[row] = slot->source[row].padding ? -1 : (int64_t)slot->source[row].sample[0];
}

/* The values of each row's neighbour; the last row of an odd number has none, and its own. */
static void fill_pairs(const ff_library_plan *plan, uint8_t *block, uint32_t count) {
    for (size_t i = 0; i < plan->count; i++) {
        const ff_library_plan_tensor *tensor = &plan->tensor[i];
        if (tensor->content != FF_BATCH_OTHER || tensor->again) continue;
        const size_t bytes = ff_dtype_bytes(tensor->dtype) * (size_t)tensor->width;
        const uint8_t *from = block + tensor->from;
        uint8_t *to = block + tensor->offset;
        for (uint32_t row = 0; row < plan->rows; row++) {
            const uint32_t other = row < count && (row ^ 1) < count ? row ^ 1 : row;
            memcpy(to + row * bytes, from + other * bytes, bytes);
        }
    }
}

ff_status ff_library_batch_create(ffload_batch **out, ff_loader *loader, ff_slot *slot,
                                  ff_library_plan *plan, ff_error *error) {
    ff_blocks *blocks;
    void *block;
    *out = NULL;
    FF_TRY(ff_loader_keep(loader, slot, &blocks, &block, error));
    uint8_t *bytes = block;
    ffload_batch *batch = (ffload_batch *)(void *)(bytes + plan->batch_offset);
    atomic_init(&batch->users, 1);
    batch->process = ff_library_process();
    batch->plan = plan;
    batch->blocks = blocks;
    batch->block = bytes;
    batch->info = ff_library_batch_info(slot->rows, slot->count, slot->epoch, slot->last,
                                        slot->batch, slot->position, slot->global_count);
    for (size_t i = 0; i < plan->count; i++)
        ff_library_plan_describe(plan, i, plan->pads ? slot->rows : slot->count, bytes,
                                 &batch->tensor[i]);
    fill_samples((int64_t *)(void *)(bytes + plan->samples_offset), slot);
    fill_pairs(plan, bytes, slot->count);
    ff_library_plan_retain(plan);
    *out = batch;
    return FF_OK;
}

/* By any thread. In a child of the process the blocks' lock may be held by a thread that it does
 * not have: its copy of the block is freed instead. */
static void release(void *context) {
    ffload_batch *batch = context;
    if (atomic_fetch_sub(&batch->users, 1) != 1) return;
    ff_library_plan_release(batch->plan);
    if (batch->process == ff_library_process())
        ff_blocks_give(batch->blocks, batch->block);
    else
        free(batch->block);
}

void ffload_batch_release(ffload_batch **batch) {
    if (*batch) release(*batch);
    *batch = NULL;
}

/* ---- using ---------------------------------------------------------------------------------- */

const ffload_batch_info *ffload_batch_info_of(const ffload_batch *batch) {
    return &batch->info;
}

int ffload_batch_tensor(const ffload_batch *batch, const char *name, const DLTensor **tensor,
                        ffload_error *error) {
    ff_error inner;
    size_t i;
    const ff_status status = ff_library_plan_find(batch->plan, name, &i, &inner);
    *tensor = status == FF_OK ? &batch->tensor[i].dl : NULL;
    return ff_library_end(status, &inner, error);
}

static ff_status export_tensor(ffload_batch *batch, const char *name,
                               DLManagedTensorVersioned **out, ff_error *error) {
    size_t i;
    *out = NULL;
    FF_TRY(ff_library_plan_find(batch->plan, name, &i, error));
    atomic_fetch_add(&batch->users, 1);
    const ff_status status =
        ff_library_tensor_export(out, &batch->tensor[i], 0, release, batch, error);
    if (status != FF_OK) release(batch);
    return status;
}

int ffload_batch_export(ffload_batch *batch, const char *name, DLManagedTensorVersioned **tensor,
                        ffload_error *error) {
    ff_error inner;
    return ff_library_end(export_tensor(batch, name, tensor, &inner), &inner, error);
}
