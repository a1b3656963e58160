/* SGD over all segments in one launch, one block per chunk; the check of the gradients; the end of
 * a step. Bytes: update.h. */
#include "train/cuda/kernels/eights.cuh"
#include "train/cuda/kernels/rates.cuh"
#include "train/cuda/kernels/update.h"

/* Eight elements per thread and step: 16 bytes of 16-bit arrays, 32 of f32. */
enum { THREADS = 256, EIGHTS = FF_CUDA_CHUNK / 8 };

extern "C" uint32_t ff_cuda_chunks(const ff_cuda_segment *segments, uint32_t count,
                                   ff_cuda_chunk *chunks) {
    uint32_t made = 0;
    for (uint32_t s = 0; s < count; s++) {
        if (segments[s].frozen) continue;
        for (uint64_t at = 0; at < segments[s].count; at += FF_CUDA_CHUNK, made++)
            if (chunks) chunks[made] = ff_cuda_chunk{s, (uint32_t)(at / FF_CUDA_CHUNK)};
    }
    return made;
}

/* Elements [first, end) of the block's chunk. */
struct chunk_range {
    uint64_t first, end;
};
static __device__ __forceinline__ chunk_range range_of(const ff_cuda_segment &segment,
                                                       ff_cuda_chunk chunk) {
    chunk_range range;
    range.first = (uint64_t)chunk.chunk * FF_CUDA_CHUNK;
    range.end = range.first + FF_CUDA_CHUNK;
    if (range.end > segment.count) range.end = segment.count;
    return range;
}

/* ---- the check ------------------------------------------------------------------------------ */

static __device__ __forceinline__ bool is_finite(float value) {
    return (__float_as_uint(value) & 0x7f800000u) != 0x7f800000u;
}

static __global__ void __launch_bounds__(THREADS) check_kernel(ff_cuda_update update) {
    const ff_cuda_chunk chunk = update.chunks[blockIdx.x];
    const ff_cuda_segment segment = update.segments[chunk.segment];
    const chunk_range range = range_of(segment, chunk);
    bool found = false;
#pragma unroll
    for (int k = 0; k < EIGHTS / THREADS; k++) {
        const uint64_t at = range.first + (uint64_t)(k * THREADS + (int)threadIdx.x) * 8;
        if (at + 8 <= range.end) {
            float value[8];
            ff_load_any(segment.gradient_dtype, segment.gradient, at, value);
#pragma unroll
            for (int i = 0; i < 8; i++) found |= !is_finite(value[i]);
        } else {
            for (uint64_t one = at; one < range.end; one++)
                found |= !is_finite(ff_load_one(segment.gradient_dtype, segment.gradient, one));
        }
    }
    if (__syncthreads_or(found) && threadIdx.x == 0) atomicOr(&update.control->non_finite, 1u);
}

extern "C" int ff_cuda_check(const ff_cuda_queue *queue, const ff_cuda_update *update) {
    if (!update->chunk_count) return FF_CUDA_OK;
    return FF_LAUNCH(check_kernel, dim3(update->chunk_count), dim3(THREADS), 0, queue->stream,
                     *update);
}

/* ---- the update ----------------------------------------------------------------------------- */

struct factors {
    float rate, momentum, decay, unscale, ema, ema_new;
    bool nesterov;
};

/* ff_sgd_update of train/optimizers/sgd.c. */
static __device__ __forceinline__ void step_one(const factors &f, float gradient, float *weight,
                                                float *momentum) {
    float g = gradient * f.unscale + f.decay * *weight;
    float m = f.momentum * *momentum + g;
    *momentum = m;
    *weight -= f.rate * (f.nesterov ? g + f.momentum * m : m);
}

static __global__ void __launch_bounds__(THREADS) update_kernel(ff_cuda_update update) {
    const ff_control *control = update.control;
    if (control->non_finite) return;
    const ff_cuda_chunk chunk = update.chunks[blockIdx.x];
    const ff_cuda_segment s = update.segments[chunk.segment];
    const ff_cuda_group group = update.groups[s.group];
    const chunk_range range = range_of(s, chunk);
    const factors f = {ff_rate_of(update.rates, update.rate_steps, group, control->step),
                       group.momentum,
                       group.weight_decay,
                       1.0f / control->loss_scale,
                       group.ema_decay,
                       1.0f - group.ema_decay,
                       group.nesterov != 0};
    for (uint64_t at = range.first + (uint64_t)threadIdx.x * 8; at < range.end;
         at += (uint64_t)THREADS * 8) {
        if (at + 8 <= range.end) {
            float gradient[8], weight[8], momentum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, ema[8];
            ff_load_any(s.gradient_dtype, s.gradient, at, gradient);
            if (s.master)
                ff_load_eight(s.master + at, weight);
            else
                ff_load_any(s.working_dtype, s.working, at, weight);
            if (s.momentum) ff_load_eight(s.momentum + at, momentum);
            if (s.ema) ff_load_eight(s.ema + at, ema);
#pragma unroll
            for (int i = 0; i < 8; i++) step_one(f, gradient[i], &weight[i], &momentum[i]);
            if (s.master) ff_store_eight(s.master + at, weight);
            if (s.working) ff_store_any(s.working_dtype, s.working, at, weight);
            if (s.momentum) ff_store_eight(s.momentum + at, momentum);
            if (s.ema) {
#pragma unroll
                for (int i = 0; i < 8; i++) ema[i] = f.ema * ema[i] + f.ema_new * weight[i];
                ff_store_eight(s.ema + at, ema);
            }
        } else {
            for (uint64_t one = at; one < range.end; one++) {
                float weight =
                    s.master ? s.master[one] : ff_load_one(s.working_dtype, s.working, one);
                float momentum = s.momentum ? s.momentum[one] : 0.0f;
                step_one(f, ff_load_one(s.gradient_dtype, s.gradient, one), &weight, &momentum);
                if (s.master) s.master[one] = weight;
                if (s.working) ff_store_one(s.working_dtype, s.working, one, weight);
                if (s.momentum) s.momentum[one] = momentum;
                if (s.ema) s.ema[one] = f.ema * s.ema[one] + f.ema_new * weight;
            }
        }
    }
}

extern "C" int ff_cuda_update_run(const ff_cuda_queue *queue, const ff_cuda_update *update) {
    if (!update->chunk_count) return FF_CUDA_OK;
    if (!update->rate_steps) return FF_CUDA_INVALID_VALUE;
    return FF_LAUNCH(update_kernel, dim3(update->chunk_count), dim3(THREADS), 0, queue->stream,
                     *update);
}

/* ---- the end of a step ---------------------------------------------------------------------- */

static __global__ void advance_kernel(ff_cuda_update update, ff_outcome *ring, uint32_t ring_size) {
    ff_control *control = update.control;
    const uint32_t non_finite = control->non_finite;
    if (ring) {
        ff_outcome *result = ring + control->step % ring_size;
        result->step = control->step;
        result->non_finite = (int32_t)non_finite;
        result->loss_scale = control->loss_scale;
        if (update.group_count && update.rate_steps)
            result->learning_rate =
                ff_rate_of(update.rates, update.rate_steps, update.groups[0], control->step);
    }
    if (non_finite)
        control->skipped++;
    else
        control->updates++;
    if (control->growth_interval) {
        control->good_steps = non_finite ? 0 : control->good_steps + 1;
        if (non_finite) control->loss_scale *= control->backoff;
        if (control->good_steps == control->growth_interval) {
            float grown = control->loss_scale * control->growth;
            if (is_finite(grown)) control->loss_scale = grown;
            control->good_steps = 0;
        }
    }
    control->non_finite = 0;
    control->step++;
}

extern "C" int ff_cuda_advance(const ff_cuda_queue *queue, const ff_cuda_update *update,
                               ff_outcome *ring, uint32_t ring_size) {
    if (ring && !ring_size) return FF_CUDA_INVALID_VALUE;
    return FF_LAUNCH(advance_kernel, dim3(1), dim3(1), 0, queue->stream, *update, ring, ring_size);
}
