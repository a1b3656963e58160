/* Copies of a batch for its consumer. */
#include "loader/gpu/batch_jobs.h"

static ff_status give_images(const ff_batch_jobs *jobs, const ff_batch_output *output,
                             ff_stream *stream, ff_error *error) {
    const ff_cuda_move *move = &jobs->move;
    const ff_device_table *table = jobs->device->table;
    const ff_cuda_planes job = {.from = move->data,
                                .to = output->to,
                                .pixels = (uint64_t)move->out_height * move->out_width,
                                .rows = move->rows,
                                .channels = move->channels,
                                .from_channels = move->out_channels,
                                .element_bytes = (uint32_t)ff_dtype_bytes(move->to)};
    const uint64_t bytes = job.rows * job.pixels * job.channels * job.element_bytes;
    if (output->layout == FF_CHW)
        return ff_batch_jobs_launched(
            jobs->device, jobs->kernels->planes(&job, table->native_stream(jobs->device, stream)),
            "arranges planes", error);
    if (move->channels != move->out_channels)
        return ff_fail(error, FF_USAGE, "images whose channels are padded are copied as planes");
    return bytes ? table->copy(jobs->device, stream, output->to, move->data, bytes, error) : FF_OK;
}

static ff_cuda_give_column column_of(const ff_batch_output *output) {
    const bool sources = output->content == FF_BATCH_SOURCES;
    const bool samples = output->content == FF_BATCH_SAMPLES || sources;
    return (ff_cuda_give_column){
        .from = samples ? NULL : output->from,
        .to = output->to,
        .words = samples ? 2 : (uint32_t)(output->row_bytes / sizeof(uint32_t)),
        .other = output->content == FF_BATCH_OTHER,
        .sources = sources,
    };
}

static ff_status give_values(const ff_batch_jobs *jobs, ff_cuda_give *job, ff_stream *stream,
                             ff_error *error) {
    ff_device *device = jobs->device;
    const int code = jobs->kernels->give(job, device->table->native_stream(device, stream));
    job->columns = 0;
    return ff_batch_jobs_launched(device, code, "copies labels", error);
}

ff_status ff_batch_jobs_give(const ff_batch_jobs *jobs, const ff_batch_output *output, size_t count,
                             ff_stream *stream, ff_error *error) {
    ff_cuda_give job = {.batch = jobs->next.batch,
                        .params = jobs->params.params,
                        .rows = jobs->move.rows,
                        .sets = jobs->sets};
    FF_TRY(jobs->device->table->make_current(jobs->device, error));
    for (size_t i = 0; i < count; i++) {
        if (output[i].content == FF_BATCH_IMAGES) {
            FF_TRY(give_images(&jobs[output[i].view], &output[i], stream, error));
            continue;
        }
        if (job.columns == FF_CUDA_GIVE_COLUMNS) FF_TRY(give_values(jobs, &job, stream, error));
        job.column[job.columns++] = column_of(&output[i]);
    }
    return job.columns ? give_values(jobs, &job, stream, error) : FF_OK;
}
