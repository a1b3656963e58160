/* Measures the stages of making batches on a device. */
#include "loader/gpu/batches.h"

static ff_status make_batch(void *context, ff_stream *stream, ff_error *error) {
    return ff_batches_enqueue_again(context, stream, error);
}

/* Times the kernels on the first batch, repeated. */
static ff_status measure_kernels(ff_batches *batches, ff_device *device, ff_stream *stream,
                                 const ff_loader_info *info, uint64_t budget_ns, double *rate,
                                 ff_error *error) {
    const ff_batch_info *batch;
    FF_TRY(ff_batches_prepare(batches, stream, &batch, error));
    if (!batch) return FF_OK;
    FF_TRY(ff_batches_enqueue(batches, stream, error));
    FF_TRY(ff_rates_of_steps(device, stream, budget_ns, make_batch, batches, rate, error));
    *rate *= info->rows;
    return ff_batches_rewind(batches, stream, error);
}

static ff_status measure_device(ff_batches *batches, ff_device *device, ff_stream *stream,
                                uint64_t budget_ns, ff_rates *rates, ff_error *error) {
    ff_batches_info info = ff_batches_describe(batches);
    double *rate = rates->rate;
    if (info.placement != FF_PLACEMENT_RESIDENT && !device->table->unified) {
        FF_TRY(ff_rates_of_copies(device, info.loader.slot_bytes, budget_ns, &rate[FF_STAGE_COPY],
                                  error));
        rate[FF_STAGE_COPY] *= info.loader.rows;
    }
    if (info.placement == FF_PLACEMENT_HOST) return FF_OK;
    return measure_kernels(batches, device, stream, &info.loader, budget_ns,
                           &rate[FF_STAGE_AUGMENT], error);
}

ff_status ff_batches_rates(ff_batches *batches, ff_dataset *dataset,
                           const ff_batches_options *options, uint64_t budget_ns, ff_rates *rates,
                           ff_error *error) {
    ff_placement placement = ff_batches_describe(batches).placement;
    ff_device *device = options->loader.device;
    *rates = (ff_rates){0};
    if (ff_batches_measure(batches).batches)
        return ff_fail(error, FF_USAGE, "rates are measured before the first step");
    if (placement != FF_PLACEMENT_RESIDENT) {
        ff_stage host = placement == FF_PLACEMENT_HOST ? FF_STAGE_AUGMENT : FF_STAGE_GATHER;
        FF_TRY(ff_rates_of_stage(dataset, &options->loader, FF_STAGE_STORAGE, budget_ns, rates,
                                 error));
        FF_TRY(ff_rates_of_stage(dataset, &options->loader, host, budget_ns, rates, error));
    }
    ff_stream *stream;
    FF_TRY(device->table->stream_create(device, &stream, error));
    ff_status status = measure_device(batches, device, stream, budget_ns, rates, error);
    device->table->stream_destroy(device, stream);
    return status;
}
