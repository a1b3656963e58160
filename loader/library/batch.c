#include "loader/library/batch.h"

#include "loader/library/status.h"

#include <stdlib.h>
#include <string.h>

struct ffload_batch {
    atomic_size_t users; /* the caller, exported tensors */
    int process;
    ff_library_plan *plan;
    ff_library_block *on_gpu; /* the memory's block on a GPU, whose record this is; or NULL: */
    ff_blocks *blocks;        /* the host memory, in which this struct lies */
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

/* The sets of the samples, -1 for padding. */
static void fill_sources(const ff_library_plan *plan, uint8_t *block) {
    const int64_t *samples = (const int64_t *)(const void *)(block + plan->samples_offset);
    int64_t *sources = (int64_t *)(void *)(block + plan->sources_offset);
    for (uint32_t row = 0; row < plan->rows && plan->sets > 1; row++) {
        sources[row] = samples[row] < 0 ? -1 : 0;
        while (samples[row] >= 0 && (uint64_t)samples[row] >= plan->begin[sources[row] + 1])
            sources[row]++;
    }
}

/* The values of each row's neighbour; the last row of an odd number of rows has no neighbour, and
 * keeps its own. */
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

/* The part of making that all batches share, once memory and info are known. */
static void finish(ffload_batch *batch, ff_library_plan *plan, uint8_t *memory) {
    const uint32_t rows = plan->pads ? batch->info.rows : batch->info.count;
    atomic_init(&batch->users, 1);
    batch->process = ff_library_process();
    batch->plan = plan;
    for (size_t i = 0; i < plan->count; i++)
        ff_library_plan_describe(plan, i, rows, memory, &batch->tensor[i]);
    ff_library_plan_retain(plan);
}

ff_status ff_library_batch_create(ffload_batch **out, ff_loader *loader, ff_slot *slot,
                                  ff_library_plan *plan, ff_error *error) {
    ff_blocks *blocks;
    void *block;
    *out = NULL;
    FF_TRY(ff_loader_keep(loader, slot, &blocks, &block, error));
    uint8_t *bytes = block;
    ffload_batch *batch = (ffload_batch *)(void *)(bytes + plan->batch_offset);
    batch->on_gpu = NULL;
    batch->blocks = blocks;
    batch->block = bytes;
    batch->info = ff_library_batch_info(slot->rows, slot->count, slot->epoch, slot->last,
                                        slot->batch, slot->position, slot->global_count);
    fill_samples((int64_t *)(void *)(bytes + plan->samples_offset), slot);
    fill_sources(plan, bytes);
    fill_pairs(plan, bytes, slot->count);
    finish(batch, plan, bytes);
    *out = batch;
    return FF_OK;
}

ffload_batch *ff_library_batch_on_gpu(ff_library_block *block, ff_library_plan *plan,
                                      const ffload_batch_info *info) {
    ffload_batch *batch = block->record;
    batch->on_gpu = block;
    batch->info = *info;
    finish(batch, plan, block->memory);
    return batch;
}

/* May be called by any thread. In a child process the blocks' lock may be held by a thread that
 * does not exist there: the child's copy of the block is freed instead; a GPU's memory has no copy.
 */
static void release(void *context) {
    ffload_batch *batch = context;
    if (atomic_fetch_sub(&batch->users, 1) != 1) return;
    const bool here = batch->process == ff_library_process();
    ff_library_plan_release(batch->plan);
    if (batch->on_gpu && here)
        ff_library_pool_give(batch->on_gpu);
    else if (!batch->on_gpu && here)
        ff_blocks_give(batch->blocks, batch->block);
    else if (!batch->on_gpu)
        free(batch->block);
}

void ffload_batch_release(ffload_batch **batch) {
    if (!batch) return;
    if (*batch) release(*batch);
    *batch = NULL;
}

/* ---- using ---------------------------------------------------------------------------------- */

const ffload_batch_info *ffload_batch_info_of(const ffload_batch *batch) {
    return batch ? &batch->info : NULL;
}

int ffload_batch_tensor(const ffload_batch *batch, const char *name, const DLTensor **tensor,
                        ffload_error *error) {
    ff_error inner;
    size_t i;
    if (tensor) *tensor = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, batch, name, tensor);
    if (status == FF_OK && (status = ff_library_plan_find(batch->plan, name, &i, &inner)) == FF_OK)
        *tensor = &batch->tensor[i].dl;
    return ff_library_end(status, &inner, error);
}

static ff_status export_tensor(ffload_batch *batch, const char *name,
                               DLManagedTensorVersioned **out, ff_error *error) {
    size_t i;
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
    if (tensor) *tensor = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, batch, name, tensor);
    if (status == FF_OK) status = export_tensor(batch, name, tensor, &inner);
    return ff_library_end(status, &inner, error);
}

static ff_status use_on(const ffload_batch *batch, ff_stream *stream, ff_error *error) {
    FF_TRY(ff_library_check_process(batch->process, "the batch", error));
    return batch->on_gpu ? ff_library_block_use(batch->on_gpu, stream, error) : FF_OK;
}

int ffload_batch_use_on(ffload_batch *batch, void *stream, ffload_error *error) {
    ff_error inner;
    ff_status status = FF_LIBRARY_GIVEN(&inner, batch);
    if (status == FF_OK) status = use_on(batch, stream, &inner);
    return ff_library_end(status, &inner, error);
}
