#include "loader/library/gpu.h"

#include "loader/sequence.h"

#include <inttypes.h>
#include <string.h>

/* The caller's check, as the upload asks it. */
static bool stops(void *context) {
    const ff_library_settings *settings = context;
    return settings->check && settings->check(settings->context) != 0;
}

/* ---- creating and destroying ---------------------------------------------------------------- */

ff_status ff_library_gpu_open(ff_library_gpu *gpu, int ordinal, ff_error *error) {
    FF_TRY(ff_cuda_module_open(&gpu->module, ordinal, error));
    FF_TRY(ff_cuda_module_table(gpu->module)->device_create(&gpu->device, ordinal, error));
    return gpu->device->table->event_create(gpu->device, &gpu->done, false, error);
}

/* Nothing can be done about a failure of the work that it waits for. */
static void end_batches(ff_library_gpu *gpu) {
    if (gpu->batches) (void)gpu->device->table->event_synchronize(gpu->device, gpu->done, NULL);
    ff_batches_destroy(&gpu->batches);
}

void ff_library_gpu_close(ff_library_gpu *gpu) {
    end_batches(gpu);
    if (gpu->device) gpu->device->table->event_destroy(gpu->device, gpu->done);
    ff_device_destroy(&gpu->device);
    ff_cuda_module_close(&gpu->module);
    gpu->done = NULL;
}

ff_status ff_library_gpu_start(ff_library_gpu *gpu, ff_dataset *dataset,
                               const ff_library_settings *settings, uint32_t epoch,
                               uint64_t position, ff_error *error) {
    ff_batches_options options = {.loader = settings->loader,
                                  .kernels = ff_cuda_module_table(gpu->module)->loader,
                                  .placement = settings->placement,
                                  .reserve_bytes = settings->reserve_bytes,
                                  .quiet = true};
    ff_sequence sequence;
    options.loader.device = gpu->device;
    options.loader.stop = stops;
    options.loader.stop_context = (void *)(uintptr_t)settings;
    options.loader.epoch = epoch;
    options.loader.position = position;
    /* What is wrong is found before the batches that there are end: two sets may not fit. */
    FF_TRY(ff_sequence_init(&sequence, dataset, &options.loader, error));
    end_batches(gpu);
    return ff_batches_create(&gpu->batches, dataset, &options, error);
}

ff_status ff_library_gpu_plan(ff_library_plan **plan, const ff_library_gpu *gpu,
                              ff_dataset *dataset, const ff_library_settings *settings,
                              ff_error *error) {
    const ff_batch_buffers *buffers = ff_batches_buffers(gpu->batches);
    const ff_batches_info info = ff_batches_describe(gpu->batches);
    const ff_slot slot = {.data = buffers->data,
                          .weight = buffers->weight,
                          .mix = buffers->mix,
                          .label = (ff_slot_label *)(uintptr_t)buffers->label,
                          .label_count = buffers->label_count,
                          .rows = info.loader.rows,
                          .channels = info.channels,
                          .height = info.loader.height,
                          .width = info.loader.width,
                          .dtype = info.dtype,
                          .layout = FF_HWC};
    return ff_library_plan_create_device(plan, &slot, dataset, settings, error);
}

/* ---- batches -------------------------------------------------------------------------------- */

/* A tensor of the caller's for this one of the plan. */
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
    bool same = to->ndim == own.dl.ndim;
    for (int k = 0; k < own.dl.ndim && same; k++)
        /* The stride of a side of one element is no matter. */
        same = to->shape[k] == own.shape[k] &&
               (own.shape[k] == 1 || !to->strides || to->strides[k] == own.strides[k]);
    if (!to->strides && plan->tensor[i].kind == FF_LIBRARY_IMAGES)
        same = same && (own.shape[1] == 1 || own.shape[2] * own.shape[3] == 1);
    if (same) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "the tensor for %s has not the shape and strides of a batch's (as "
                   "ffload_loader_describe says them)",
                   name);
}

static uint64_t bytes_of(const ff_library_plan *plan, size_t i) {
    ff_library_tensor tensor;
    ff_library_plan_describe(plan, i, plan->rows, NULL, &tensor);
    uint64_t bytes = ff_dtype_bytes(plan->tensor[i].dtype);
    for (int k = 0; k < tensor.dl.ndim; k++) bytes *= (uint64_t)tensor.shape[k];
    return bytes;
}

static ff_status copy_all(ff_library_gpu *gpu, const ff_library_plan *plan,
                          const char *const *names, const DLTensor *const *to, size_t count,
                          ff_stream *stream, ff_error *error) {
    const uint8_t *from = ff_batches_buffers(gpu->batches)->data;
    for (size_t k = 0; k < count; k++) {
        size_t i;
        FF_TRY(ff_library_plan_find(plan, names[k], &i, error));
        uint8_t *data = (uint8_t *)to[k]->data + to[k]->byte_offset;
        const uint64_t bytes = bytes_of(plan, i);
        if (bytes)
            FF_TRY(gpu->device->table->copy(gpu->device, stream, data,
                                            from + plan->tensor[i].offset, bytes, error));
    }
    return FF_OK;
}

ff_status ff_library_gpu_enqueue(ff_library_gpu *gpu, const ff_library_plan *plan,
                                 const char *const *names, const DLTensor *const *to, size_t count,
                                 void *native, const ff_batch_info **info, ff_error *error) {
    ff_stream *stream = native; /* as CUDA's own, so the device table's is, too */
    *info = NULL;
    for (size_t k = 0; k < count; k++) {
        size_t i;
        FF_TRY(ff_library_plan_find(plan, names[k], &i, error));
        FF_TRY(check_tensor(gpu, plan, i, to[k], error));
    }
    FF_TRY(ff_batches_prepare(gpu->batches, stream, info, error));
    if (!*info) return FF_OK;
    FF_TRY(ff_batches_enqueue(gpu->batches, stream, error));
    FF_TRY(copy_all(gpu, plan, names, to, count, stream, error));
    FF_TRY(ff_batches_finish(gpu->batches, stream, error));
    return gpu->device->table->event_record(gpu->device, gpu->done, stream, error);
}
