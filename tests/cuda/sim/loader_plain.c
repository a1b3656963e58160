#include "tests/cuda/sim/loader_plain.h"

#include "loader/augment/host.h"
#include "tests/cuda/sim/device.h"

#include <stdlib.h>
#include <string.h>

static int enqueue(ff_cuda_stream stream, void (*function)(void *), const void *job, size_t bytes) {
    void *copy = malloc(bytes);
    if (!copy) return 2; /* cudaErrorMemoryAllocation */
    memcpy(copy, job, bytes);
    return ff_device_sim_enqueue(stream, function, copy, free);
}

static void run_next(void *context) {
    const ff_cuda_next *job = context;
    ff_cuda_batch *batch = job->batch;
    if (job->given) batch->number = job->number;
    if (job->given == 2) return;
    batch->at = ff_sequence_at(&job->sequence, batch->number);
    batch->slot = (uint32_t)(batch->number % job->slots);
    ff_order_init(&batch->order, &job->order, batch->at.epoch);
    batch->number++;
}

static void run_params(void *context) {
    const ff_cuda_params *job = context;
    const ff_cuda_batch *batch = job->batch;
    for (uint32_t row = 0; row < job->rows; row++) {
        job->weight[row] = row < batch->at.count ? 1.0f : 0.0f;
        job->params[row] = (ff_augment_params){0};
        if (job->mix) job->mix[row] = 1;
        if (row >= batch->at.count) continue;
        const uint64_t position = batch->at.position + row;
        uint64_t sample = ff_sampling_at(&job->sampling, &batch->order, batch->at.epoch, position);
        if (job->sample_of_place) sample = job->sample_of_place[sample];
        const uint32_t height = job->size ? job->size[2 * sample] : job->height;
        const uint32_t width = job->size ? job->size[2 * sample + 1] : job->width;
        const uint64_t index =
            ff_sampling_index(ff_sampling_again(&job->sampling), sample, position, job->view);
        job->params[row] = ff_augment_at(&job->spec, job->seed, batch->at.epoch, index, height,
                                         width, job->out_height, job->out_width);
        job->params[row].sample = sample;
        if (ff_augment_mixes(&job->spec) && (row ^ 1) < batch->at.count)
            ff_augment_mix(&job->spec, &job->params[row], job->seed, batch->at.epoch,
                           (batch->at.position + (row & ~1u)) / 2, job->out_height, job->out_width);
        if (job->mix) job->mix[row] = job->params[row].weight;
    }
}

static void move_columns(const ff_cuda_move *job, uint32_t row, uint64_t from) {
    for (uint32_t i = 0; i < job->columns; i++) {
        const ff_cuda_column *column = &job->column[i];
        const uint32_t *source =
            (const uint32_t *)(const void *)((const uint8_t *)column->from +
                                             job->batch->slot * job->slot_bytes);
        for (uint32_t k = 0; k < column->width; k++)
            column->to[row * column->width + k] =
                row < job->batch->at.count ? source[from * column->width + k] : column->padding;
    }
}

static void run_move(void *context) {
    const ff_cuda_move *job = context;
    ff_augment_host host = {.from = job->from,
                            .to = job->to,
                            .from_layout = job->from_layout,
                            .to_layout = FF_HWC,
                            .channels = job->channels,
                            .out_height = job->out_height,
                            .out_width = job->out_width,
                            .from_bytes = ff_dtype_bytes(job->from),
                            .to_bytes = ff_dtype_bytes(job->to),
                            .pad_mode = job->pad_mode,
                            .black = (uint32_t *)(uintptr_t)job->black,
                            .table = (void *)(uintptr_t)job->table};
    size_t pixels = (size_t)job->out_height * job->out_width;
    size_t narrow = job->channels * host.to_bytes, wide = job->out_channels * host.to_bytes;
    uint8_t *packed = malloc(pixels * narrow);
    if (!packed) abort();
    for (uint32_t row = 0; row < job->rows; row++) {
        const ff_augment_params *params = &job->params[row];
        uint64_t from = row;
        uint8_t *out = (uint8_t *)job->data + row * pixels * wide;
        memset(out, 0, pixels * wide);
        if (row < job->batch->at.count) {
            if (job->gather) from = job->row_of ? job->row_of[params->sample] : params->sample;
            const uint8_t *source =
                job->samples + job->batch->slot * job->slot_bytes + from * job->row_bytes;
            ff_augment_plain(&host, params, source, job->height, job->width, packed);
            for (size_t i = 0; i < pixels; i++) memcpy(out + i * wide, packed + i * narrow, narrow);
        }
        move_columns(job, row, from);
    }
    free(packed);
}

static int next(const ff_cuda_next *job, ff_cuda_stream stream) {
    return enqueue(stream, run_next, job, sizeof *job);
}
static int params(const ff_cuda_params *job, ff_cuda_stream stream) {
    return enqueue(stream, run_params, job, sizeof *job);
}
static int move(const ff_cuda_move *job, ff_cuda_stream stream) {
    return enqueue(stream, run_move, job, sizeof *job);
}

const ff_loader_kernels ff_loader_plain_kernels = {.next = next, .params = params, .move = move};
