#include "loader/batch_wide.h"

#include "loader/augment/resample.h"

#include <string.h>

bool ff_batch_wide_needed(const ff_loader_plan *plan) {
    return plan->wide.used || ff_augment_resamples(&plan->augment) ||
           plan->metadata->variable_size || plan->metadata->dtype == FF_U16;
}

static uint64_t values_bytes(const ff_loader_plan *plan) {
    return UINT64_C(4) * plan->rows * plan->host.channels * plan->height * plan->width;
}

/* Floats: five arrays of [channels], and for u8 the table, [channels][256]. */
static uint64_t constants_bytes(const ff_loader_plan *plan) {
    return (uint64_t)plan->host.channels * sizeof(float) *
           (5 + (plan->metadata->dtype == FF_U8 ? 256 : 0));
}

uint64_t ff_batch_wide_bytes(const ff_loader_plan *plan) {
    return ff_batch_wide_needed(plan) ? values_bytes(plan) + constants_bytes(plan) : 0;
}

ff_status ff_batch_upload(ff_device *device, void *to, const void *pinned, uint64_t bytes,
                          ff_error *error) {
    const ff_device_table *table = device->table;
    ff_stream *stream;
    FF_TRY(table->stream_create(device, &stream, error));
    ff_status status = table->copy(device, stream, to, pinned, bytes, error);
    if (status == FF_OK) status = table->stream_synchronize(device, stream, error);
    table->stream_destroy(device, stream);
    return status;
}

/* The arrays lie in this order. */
static void point_at(ff_cuda_wide *job, const float *at, uint32_t channels) {
    job->move.black = (const uint32_t *)(const void *)at;
    job->multiply = at + channels;
    job->add = at + 2 * (size_t)channels;
    job->mean = at + 3 * (size_t)channels;
    job->std = at + 4 * (size_t)channels;
    job->move.table = job->move.from == FF_U8 ? at + 5 * (size_t)channels : NULL;
}

/* What the samples are before they are jittered goes by `stored`, as on the host. */
static ff_status fill(float *to, const ff_loader_plan *plan, const ff_metadata *stored,
                      ff_error *error) {
    const uint32_t channels = plan->host.channels;
    ff_augment_host planes;
    FF_TRY(ff_augment_host_init(&planes, stored, &plan->augment, FF_F32, FF_CHW, plan->height,
                                plan->width, error));
    memcpy(to, planes.black, channels * sizeof *planes.black);
    for (uint32_t c = 0; c < channels; c++) {
        ff_resample_u8(stored, c, &to[channels + c], &to[2 * channels + c]);
        to[3 * channels + c] = plan->wide.jitters ? plan->wide.mean[c] : 0;
        to[4 * channels + c] = plan->wide.jitters ? plan->wide.std[c] : 1;
    }
    if (planes.table) memcpy(to + 5 * (size_t)channels, planes.table, channels * 256ul * 4);
    ff_augment_host_free(&planes);
    return FF_OK;
}

ff_status ff_batch_wide_create(ff_batch_wide *wide, const ff_loader_plan *plan, ff_device *device,
                               const ff_cuda_move *move, ff_error *error) {
    const ff_device_table *table = device->table;
    const ff_metadata *stored = plan->wide.used ? &plan->wide.metadata : plan->metadata;
    *wide = (ff_batch_wide){.device = device};
    FF_TRY(table->allocate(device, &wide->values, values_bytes(plan), "samples in f32", error));
    FF_TRY(table->allocate(device, &wide->constants, constants_bytes(plan),
                           "an augmentation's constants", error));
    wide->job = (ff_cuda_wide){
        .move = *move,
        .values = wide->values,
        .resampled = (uint32_t)ff_augment_resamples(&plan->augment),
        .jittered = plan->wide.jitters,
        .normalised = stored->statistics_count != 0,
        .seed = plan->seed,
    };
    memcpy(wide->job.jitter, plan->augment.jitter, sizeof wide->job.jitter);
    point_at(&wide->job, wide->constants, plan->host.channels);
    void *pinned;
    FF_TRY(table->allocate_pinned(device, &pinned, constants_bytes(plan),
                                  "an augmentation's constants", error));
    ff_status status = fill(pinned, plan, stored, error);
    if (status == FF_OK)
        status = ff_batch_upload(device, wide->constants, pinned, constants_bytes(plan), error);
    table->release_pinned(device, pinned);
    return status;
}

void ff_batch_wide_destroy(ff_batch_wide *wide) {
    if (wide->device) {
        wide->device->table->release(wide->device, wide->values);
        wide->device->table->release(wide->device, wide->constants);
    }
    *wide = (ff_batch_wide){0};
}
