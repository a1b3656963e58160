#include "loader/gpu/batch_augment.h"

#include "loader/augment/resample.h"

#include <string.h>

bool ff_batch_augment_needed(const ff_loader_settings *settings) {
    return settings->finish.used || ff_augment_resamples(&settings->augment) ||
           settings->metadata->variable_size || settings->metadata->dtype == FF_U16 ||
           settings->host.to == FF_U8;
}

/* The number of values in all rows. */
static uint64_t value_count(const ff_loader_settings *settings) {
    return (uint64_t)settings->rows * settings->host.channels * settings->height * settings->width;
}

uint64_t ff_batch_values_bytes(const ff_loader_settings *settings) {
    if (!ff_batch_augment_needed(settings)) return 0;
    if (settings->host.to == FF_U8 && !settings->finish.changes) return value_count(settings);
    return value_count(settings) *
           (sizeof(float) +
            (settings->finish.changes ? ff_change_images(&settings->augment.change) : 0));
}

/* Size of the constants: five float arrays of [channels]; [channels][256] for the table of u8, and
 * again for changes. */
static uint64_t constants_bytes(const ff_loader_settings *settings) {
    return (uint64_t)settings->host.channels * sizeof(float) *
           (5 + (settings->metadata->dtype == FF_U8 ? 256 : 0) +
            (settings->finish.changes ? 256 : 0));
}

uint64_t ff_batch_augment_bytes(const ff_loader_settings *settings) {
    return ff_batch_augment_needed(settings) ? constants_bytes(settings) : 0;
}

ff_status ff_batch_upload(ff_device *device, void *to, const void *pinned, uint64_t bytes,
                          ff_error *error) {
    const ff_device_table *table = device->table;
    ff_stream *stream;
    FF_TRY(table->stream_create(device, &stream, error));
    ff_status status;
    FF_TRY_DONE(table->copy(device, stream, to, pinned, bytes, error));
    FF_TRY_DONE(table->stream_synchronize(device, stream, error));
done:
    table->stream_destroy(device, stream);
    return status;
}

/* The arrays are stored in this order. */
static void point_at(ff_cuda_augment *job, const float *at, uint32_t channels) {
    job->move.black = (const uint32_t *)(const void *)at;
    job->multiply = at + channels;
    job->add = at + 2 * (size_t)channels;
    job->mean = at + 3 * (size_t)channels;
    job->std = at + 4 * (size_t)channels;
    at += 5 * (size_t)channels;
    job->move.table = NULL;
    if (job->move.from == FF_U8) job->move.table = at, at += 256 * (size_t)channels;
    if (job->changed) job->shown = at;
}

/* Whether values of u8 stay as they are until they are changed. */
static bool stays_u8(const ff_loader_settings *settings) {
    return settings->finish.direct &&
           (settings->host.to == FF_U8 || ff_augment_resamples(&settings->augment));
}

/* `stored` describes the samples before jitter and changes, as on the host. */
static ff_status fill(float *to, const ff_loader_settings *settings, const ff_metadata *stored,
                      ff_error *error) {
    const uint32_t channels = settings->host.channels;
    const bool alters = ff_finish_alters(&settings->finish);
    ff_augment_host planes;
    FF_TRY(ff_augment_host_init(&planes, stored, &settings->augment, FF_F32, FF_CHW,
                                settings->height, settings->width, error));
    memcpy(to, planes.black, channels * sizeof *planes.black);
    for (uint32_t c = 0; c < channels; c++) {
        ff_resample_scale(stored, c, &to[channels + c], &to[2 * channels + c]);
        if (stays_u8(settings)) to[channels + c] = 1, to[2 * channels + c] = 0;
        to[3 * channels + c] = alters ? settings->finish.mean[c] : 0;
        to[4 * channels + c] = alters ? settings->finish.std[c] : 1;
    }
    to += 5 * (size_t)channels;
    if (planes.table) memcpy(to, planes.table, channels * 256ul * 4), to += channels * 256ul;
    if (settings->finish.changes) memcpy(to, settings->finish.shown, channels * 256ul * 4);
    ff_augment_host_free(&planes);
    return FF_OK;
}

ff_status ff_batch_augment_create(ff_batch_augment *augment, const ff_loader_settings *settings,
                                  uint32_t view, ff_device *device, const ff_cuda_move *move,
                                  void *values, ff_error *error) {
    const ff_device_table *table = device->table;
    const ff_metadata *stored =
        settings->finish.used ? &settings->finish.metadata : settings->metadata;
    *augment = (ff_batch_augment){.device = device};
    FF_TRY(table->allocate(device, &augment->constants, constants_bytes(settings),
                           "an augmentation's constants", error));
    augment->job = (ff_cuda_augment){
        .move = *move,
        .values = values,
        .resampled = (uint32_t)ff_augment_resamples(&settings->augment),
        .jittered = settings->finish.jitters,
        .normalised = stored->statistics_count != 0,
        .seed = settings->seed,
        .again = (uint32_t)ff_sampling_again(&settings->sampling),
        .view = view,
        .changed = settings->finish.changes,
        .level = stays_u8(settings) ? 1 : 255,
        .change = settings->augment.change,
        .images = (uint8_t *)values + value_count(settings) * sizeof(float),
    };
    memcpy(augment->job.jitter, settings->augment.jitter, sizeof augment->job.jitter);
    point_at(&augment->job, augment->constants, settings->host.channels);
    void *pinned;
    FF_TRY(table->allocate_pinned(device, &pinned, constants_bytes(settings),
                                  "an augmentation's constants", error));
    ff_status status;
    FF_TRY_DONE(fill(pinned, settings, stored, error));
    FF_TRY_DONE(
        ff_batch_upload(device, augment->constants, pinned, constants_bytes(settings), error));
done:
    table->release_pinned(device, pinned);
    return status;
}

void ff_batch_augment_destroy(ff_batch_augment *augment) {
    if (augment->device) augment->device->table->release(augment->device, augment->constants);
    *augment = (ff_batch_augment){0};
}
