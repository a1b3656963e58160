#include "loader/library/gpu.h"

#include <inttypes.h>
#include <string.h>

/* More than the tensors of a batch. */
enum { OUTPUTS_MOST = 2 * FF_LIBRARY_LABELS_MOST + FF_VIEWS_MOST + 8 };

/* The caller's check, in the form that the upload calls. */
static bool stops(void *context) {
    const ff_library_settings *settings = context;
    return settings->check && settings->check(settings->context) != 0;
}

/* ---- creating and destroying ---------------------------------------------------------------- */

void ff_library_gpu_enter(ff_library_gpu *gpu) {
    if (gpu->device) gpu->current = gpu->device->table->current(gpu->device);
}

void ff_library_gpu_leave(const ff_library_gpu *gpu) {
    if (gpu->device) gpu->device->table->restore(gpu->device, gpu->current);
}

ff_status ff_library_gpu_open(ff_library_gpu *gpu, int ordinal, ff_error *error) {
    ff_cuda_module *module;
    ff_device *device;
    FF_TRY(ff_cuda_module_open(&module, ordinal, error));
    const ff_status status = ff_cuda_module_table(module)->device_create(&device, ordinal, error);
    if (status != FF_OK) {
        ff_cuda_module_close(&module);
        return status;
    }
    FF_TRY(ff_library_pool_create(&gpu->pool, module, device, error));
    gpu->kernels = ff_cuda_module_table(module)->loader;
    gpu->device = device;
    ff_library_gpu_enter(gpu);
    return device->table->event_create(device, &gpu->done, false, error);
}

/* A failure here, or in the work that it waits for, cannot be reported to anybody. */
void ff_library_gpu_close(ff_library_gpu *gpu) {
    ff_library_gpu_enter(gpu);
    if (gpu->begun && ff_library_gpu_end(gpu, gpu->stream, NULL) != FF_OK) gpu->begun = NULL;
    if (gpu->batches) (void)gpu->device->table->event_synchronize(gpu->device, gpu->done, NULL);
    ff_batches_destroy(&gpu->batches);
    if (gpu->device) gpu->device->table->event_destroy(gpu->device, gpu->done);
    ff_library_gpu_leave(gpu);
    ff_library_pool_close(&gpu->pool);
    *gpu = (ff_library_gpu){0};
}

ff_status ff_library_gpu_start(ff_library_gpu *gpu, ff_dataset *dataset,
                               const ff_library_settings *settings, ff_error *error) {
    ff_batches_options options = {.loader = settings->loader,
                                  .kernels = gpu->kernels,
                                  .placement = settings->placement,
                                  .reserve_bytes = settings->reserve_bytes,
                                  .quiet = true,
                                  .places = true};
    options.loader.device = gpu->device;
    options.loader.stop = stops;
    options.loader.stop_context = (void *)(uintptr_t)settings;
    return ff_batches_create(&gpu->batches, dataset, &options, error);
}

ff_status ff_library_gpu_seek(ff_library_gpu *gpu, const ff_sequence *sequence, ff_error *error) {
    if (gpu->begun) FF_TRY(ff_library_gpu_end(gpu, gpu->stream, error));
    ff_batches_seek(gpu->batches, sequence);
    return FF_OK;
}

ff_status ff_library_gpu_plan(ff_library_plan **plan, ff_library_gpu *gpu, ff_dataset *dataset,
                              const ff_library_settings *settings, ff_error *error) {
    const ff_batch_buffers *buffers = ff_batches_buffers(gpu->batches);
    const ff_batches_info info = ff_batches_describe(gpu->batches);
    const ff_slot slot = {.data = buffers->data,
                          .view = buffers->view,
                          .views = buffers->views,
                          .weight = buffers->weight,
                          .mix = buffers->mix,
                          .label = (ff_slot_label *)(uintptr_t)buffers->label,
                          .label_count = buffers->label_count,
                          .rows = info.loader.rows,
                          .channels = info.channels,
                          .height = info.loader.height,
                          .width = info.loader.width,
                          .dtype = info.dtype,
                          .layout = settings->loader.layout};
    const uint64_t bytes =
        (uint64_t)((const uint8_t *)(const void *)buffers->params - (const uint8_t *)buffers->data);
    FF_TRY(ff_library_plan_create_device(plan, &slot, bytes, dataset, settings, error));
    ff_library_pool_set(gpu->pool, (*plan)->bytes, ff_library_batch_bytes((*plan)->count));
    return FF_OK;
}

/* ---- batches -------------------------------------------------------------------------------- */

/* Checks the caller's tensor for this tensor of the plan. */
static ff_status check_tensor(const ff_library_gpu *gpu, const ff_library_plan *plan, size_t i,
                              const DLTensor *to, ff_error *error) {
    ff_library_tensor own;
    const char *name = plan->tensor[i].name;
    ff_library_plan_describe(plan, i, plan->rows, NULL, &own);
    if (!to->data || to->device.device_type != kDLCUDA ||
        to->device.device_id != gpu->device->ordinal)
        return ff_fail(error, FF_USAGE, "the tensor for %s is not in the memory of cuda:%d", name,
                       gpu->device->ordinal);
    if (memcmp(&to->dtype, &own.dl.dtype, sizeof to->dtype) != 0)
        return ff_fail(error, FF_USAGE, "the tensor for %s is not %s", name,
                       ff_dtype_name(plan->tensor[i].dtype));
    if (((uintptr_t)to->data + to->byte_offset) % ff_dtype_bytes(plan->tensor[i].dtype))
        return ff_fail(error, FF_USAGE, "the tensor for %s is not aligned to its elements", name);
    bool same = to->ndim == own.dl.ndim && to->shape;
    for (int k = 0; k < own.dl.ndim && same; k++)
        /* The stride of a side of one element does not matter. */
        same = to->shape[k] == own.shape[k] &&
               (own.shape[k] == 1 || !to->strides || to->strides[k] == own.strides[k]);
    if (!to->strides && plan->tensor[i].kind == FF_LIBRARY_IMAGES && plan->layout == FF_HWC)
        same = same && (own.shape[1] == 1 || own.shape[2] * own.shape[3] == 1);
    if (same) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "the tensor for %s does not have the shape and strides of a batch's (see "
                   "ffload_loader_describe)",
                   name);
}

/* A copy of tensor number `i` of the plan. */
static ff_batch_output output_of(const ff_library_gpu *gpu, const ff_library_plan *plan, size_t i,
                                 void *to) {
    const ff_library_plan_tensor *tensor = &plan->tensor[i];
    const uint8_t *buffers = ff_batches_buffers(gpu->batches)->data;
    return (ff_batch_output){
        .content = tensor->content,
        .layout = plan->layout,
        .view = tensor->view,
        .from = buffers + (tensor->content == FF_BATCH_OTHER ? tensor->from : tensor->offset),
        .row_bytes = (uint64_t)ff_dtype_bytes(tensor->dtype) * tensor->width,
        .to = to,
    };
}

/* Checks all of the caller's tensors. output: [OUTPUTS_MOST], of which `count` are set. */
static ff_status list_outputs(const ff_library_gpu *gpu, const ff_library_plan *plan,
                              const ff_library_tensors *tensors, ff_batch_output *output,
                              ff_error *error) {
    if (tensors->count > OUTPUTS_MOST)
        return ff_fail(error, FF_USAGE, "more than %d tensors at once", OUTPUTS_MOST);
    for (size_t k = 0; k < tensors->count; k++) {
        const DLTensor *to = tensors->to[k];
        size_t i;
        if (!to || !tensors->names[k])
            return ff_fail(error, FF_USAGE, "%s[%zu] is NULL", to ? "names" : "to", k);
        FF_TRY(ff_library_plan_find(plan, tensors->names[k], &i, error));
        FF_TRY(check_tensor(gpu, plan, i, to, error));
        output[k] = output_of(gpu, plan, i, (uint8_t *)to->data + to->byte_offset);
    }
    return FF_OK;
}

/* Refuses a capture: the work would run only when the recording is launched. */
static ff_status check_outside(const ff_library_gpu *gpu, ff_stream *stream, ff_error *error) {
    if (!gpu->device->table->capturing(gpu->device, stream)) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "the stream is in a capture, where only ffload_loader_write is possible");
}

ff_status ff_library_gpu_begin(ff_library_gpu *gpu, ff_stream *stream, ff_error *error) {
    const ff_device_table *table = gpu->device->table;
    FF_TRY(check_outside(gpu, stream, error));
    /* All batches are made in the same buffers. Two streams may have had the same handle, one after
     * the other, so handles are not compared. */
    FF_TRY(table->stream_wait(gpu->device, stream, gpu->done, error));
    FF_TRY(ff_batches_prepare(gpu->batches, stream, &gpu->begun, error));
    gpu->stream = stream;
    return FF_OK;
}

ff_status ff_library_gpu_end(ff_library_gpu *gpu, ff_stream *stream, ff_error *error) {
    if (!gpu->begun) return ff_fail(error, FF_USAGE, "there is no batch to end: none was begun");
    FF_TRY(check_outside(gpu, stream, error));
    gpu->begun = NULL;
    gpu->stream = stream;
    FF_TRY(ff_batches_finish(gpu->batches, stream, error));
    return gpu->device->table->event_record(gpu->device, gpu->done, stream, error);
}

static ff_status enqueue(ff_library_gpu *gpu, const ff_batch_output *output, size_t count,
                         ff_stream *stream, ff_error *error) {
    FF_TRY(ff_batches_enqueue(gpu->batches, stream, error));
    return ff_batches_give(gpu->batches, output, count, stream, error);
}

ff_status ff_library_gpu_write(ff_library_gpu *gpu, const ff_library_plan *plan,
                               const ff_library_tensors *tensors, ff_stream *stream,
                               ff_error *error) {
    ff_batch_output output[OUTPUTS_MOST];
    FF_TRY(list_outputs(gpu, plan, tensors, output, error));
    if (!gpu->begun && !gpu->device->table->capturing(gpu->device, stream))
        return ff_fail(error, FF_USAGE,
                       "there is no batch to write: none was begun, and the stream is in no "
                       "capture");
    return enqueue(gpu, output, tensors->count, stream, error);
}

ff_status ff_library_gpu_enqueue(ff_library_gpu *gpu, const ff_library_plan *plan,
                                 const ff_library_tensors *tensors, ff_stream *stream,
                                 const ff_batch_info **info, ff_error *error) {
    ff_batch_output output[OUTPUTS_MOST];
    *info = NULL;
    FF_TRY(list_outputs(gpu, plan, tensors, output, error));
    FF_TRY(ff_library_gpu_begin(gpu, stream, error));
    *info = gpu->begun;
    if (!*info) return FF_OK;
    FF_TRY(enqueue(gpu, output, tensors->count, stream, error));
    return ff_library_gpu_end(gpu, stream, error);
}

static ff_status write_block(ff_library_gpu *gpu, const ff_library_plan *plan,
                             ff_library_block *block, ff_error *error) {
    ff_batch_output output[OUTPUTS_MOST];
    size_t count = 0;
    for (size_t i = 0; i < plan->count && count < OUTPUTS_MOST; i++)
        if (!plan->tensor[i].again)
            output[count++] =
                output_of(gpu, plan, i, (uint8_t *)block->memory + plan->tensor[i].offset);
    FF_TRY(enqueue(gpu, output, count, gpu->stream, error));
    return ff_library_block_written(block, error);
}

ff_status ff_library_gpu_next(ff_library_gpu *gpu, const ff_library_plan *plan, ff_stream *stream,
                              ff_library_block **out, const ff_batch_info **info, ff_error *error) {
    ff_library_block *block;
    *out = NULL;
    *info = NULL;
    FF_TRY(ff_library_gpu_begin(gpu, stream, error));
    if (!gpu->begun) return FF_OK;
    FF_TRY(ff_library_pool_take(gpu->pool, stream, &block, error));
    const ff_batch_info *begun = gpu->begun;
    ff_status status = write_block(gpu, plan, block, error);
    if (status == FF_OK) status = ff_library_gpu_end(gpu, stream, error);
    if (status != FF_OK) {
        ff_library_pool_give(block);
        return status;
    }
    *out = block;
    *info = begun;
    return FF_OK;
}
