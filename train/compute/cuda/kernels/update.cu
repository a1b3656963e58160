/* An optimizer over all its segments, one block per chunk; the end of a step. Bytes: update.h. */
#include "train/compute/cuda/kernels/update.cuh"

/* Eight elements per thread and step: 16 bytes of 16-bit arrays, 32 of f32. */
enum { THREADS = 256 };

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

/* ---- the update ----------------------------------------------------------------------------- */

template <int RULE, int N> struct elements {
    static constexpr int states = RULE == FF_RULE_ADAMW || RULE == FF_RULE_LAMB ? 2 : 1;
    static_assert(FF_STATES == 2, "say above which rule has more blocks of state");
    float gradient[N], weight[N], state[FF_STATES][N];

    __device__ __forceinline__ void load_weights(const ff_cuda_segment &s, uint64_t at) {
        if (s.master)
            get(FF_F32, s.master, at, weight);
        else
            get(s.working_dtype, s.working, at, weight);
    }
    __device__ __forceinline__ void load_state(const ff_cuda_segment &s, uint64_t at) {
#pragma unroll
        for (int k = 0; k < states; k++) {
#pragma unroll
            for (int i = 0; i < N; i++) state[k][i] = 0;
            if (s.state[k]) get(FF_F32, s.state[k], at, state[k]);
        }
    }
    __device__ __forceinline__ void store_state(const ff_cuda_segment &s, uint64_t at) {
#pragma unroll
        for (int k = 0; k < states; k++)
            if (s.state[k]) put(FF_F32, s.state[k], at, state[k]);
    }
};

/* Adds the squares of the weights, and the squares of the divisor of LARS' or LAMB's ratio; updates
 * LAMB's state. */
template <int RULE, int N>
static __device__ __forceinline__ void measure(const ff_cuda_segment &s, const ff_factors &f,
                                               uint64_t at, double *weights, double *updates) {
    elements<RULE, N> e;
    get(s.gradient_dtype, s.gradient, at, e.gradient);
    e.load_weights(s, at);
    if (RULE == FF_RULE_LAMB) e.load_state(s, at);
#pragma unroll
    for (int i = 0; i < N; i++) {
        float by = e.gradient[i];
        if (RULE == FF_RULE_LAMB) {
            ff_moments_element(&f, by, &e.state[0][i], &e.state[1][i]);
            by = ff_lamb_update(&f, e.weight[i], e.state[0][i], e.state[1][i]);
        }
        *weights += (double)e.weight[i] * (double)e.weight[i];
        *updates += (double)by * (double)by;
    }
    if (RULE == FF_RULE_LAMB) e.store_state(s, at);
}

template <int RULE, int N>
static __device__ __forceinline__ void step(const ff_cuda_segment &s, const ff_factors &f,
                                            float ratio, float ema_decay, uint64_t at) {
    elements<RULE, N> e;
    if (RULE != FF_RULE_LAMB) get(s.gradient_dtype, s.gradient, at, e.gradient);
    e.load_weights(s, at);
    e.load_state(s, at);
#pragma unroll
    for (int i = 0; i < N; i++) {
        float *w = &e.weight[i], *m = &e.state[0][i], *v = &e.state[1][i];
        if (RULE == FF_RULE_SGD) ff_sgd_element(&f, e.gradient[i], w, m);
        if (RULE == FF_RULE_ADAMW) ff_adamw_element(&f, e.gradient[i], w, m, v);
        if (RULE == FF_RULE_LARS) ff_lars_element(&f, ratio, e.gradient[i], w, m);
        if (RULE == FF_RULE_LAMB) *w -= f.rate * ratio * ff_lamb_update(&f, *w, *m, *v);
    }
    if (s.master) put(FF_F32, s.master, at, e.weight);
    if (s.working) put(s.working_dtype, s.working, at, e.weight);
    if (RULE != FF_RULE_LAMB) e.store_state(s, at);
    if (s.ema) {
        float ema[N];
        get(FF_F32, s.ema, at, ema);
#pragma unroll
        for (int i = 0; i < N; i++) ema[i] = ema_decay * ema[i] + (1.0f - ema_decay) * e.weight[i];
        put(FF_F32, s.ema, at, ema);
    }
}

/* One thread raises the betas to their powers. */
static __device__ __forceinline__ ff_factors factors_of(const ff_cuda_update &update,
                                                        const ff_cuda_group &group,
                                                        ff_factors *shared) {
    const ff_control *control = update.control;
    if (threadIdx.x == 0)
        *shared = ff_factors_of(
            &group.hyper, (double)ff_rate_of(update.rates, update.rate_steps, group, control->step),
            control->updates, ff_scale_of(update.scale, control));
    __syncthreads();
    return *shared;
}

template <int RULE>
static __global__ void __launch_bounds__(THREADS) measure_kernel(ff_cuda_update update) {
    __shared__ double shared[THREADS];
    __shared__ ff_factors factors[1];
    if (update.control->non_finite) return; /* the whole grid */
    const ff_cuda_chunk chunk = update.chunks[blockIdx.x];
    const ff_cuda_segment s = update.segments[chunk.segment];
    const chunk_range range = range_of(s, chunk);
    const ff_factors f = factors_of(update, update.groups[s.group], factors);
    double weights = 0, updates = 0;
    for (uint64_t at = range.first + (uint64_t)threadIdx.x * 8; at < range.end;
         at += (uint64_t)THREADS * 8) {
        if (at + 8 <= range.end)
            measure<RULE, 8>(s, f, at, &weights, &updates);
        else
            for (uint64_t one = at; one < range.end; one++)
                measure<RULE, 1>(s, f, one, &weights, &updates);
    }
    weights = ff_block_sum(shared, weights);
    updates = ff_block_sum(shared, updates);
    if (threadIdx.x == 0) {
        update.sums[2 * blockIdx.x] = weights;
        update.sums[2 * blockIdx.x + 1] = updates;
    }
}

/* The ratio, from the sums of the segment's chunks, whose blocks are adjacent. */
template <int RULE>
static __device__ __forceinline__ float ratio_of(const ff_cuda_update &update,
                                                 const ff_cuda_segment &s, ff_cuda_chunk chunk,
                                                 const ff_factors &f, double (&shared)[THREADS]) {
    if (!(RULE == FF_RULE_LARS || RULE == FF_RULE_LAMB) || !s.adapts) return 1.0f;
    const double *sums = update.sums + 2 * (uint64_t)(blockIdx.x - chunk.chunk);
    const uint64_t chunks = (s.count + FF_CUDA_CHUNK - 1) / FF_CUDA_CHUNK;
    double weights = 0, updates = 0;
    for (uint64_t i = threadIdx.x; i < chunks; i += THREADS) {
        weights += sums[2 * i];
        updates += sums[2 * i + 1];
    }
    weights = ff_block_sum(shared, weights);
    updates = ff_block_sum(shared, updates);
    return RULE == FF_RULE_LARS ? ff_lars_ratio(&f, weights, updates)
                                : ff_lamb_ratio(weights, updates);
}

template <int RULE>
static __global__ void __launch_bounds__(THREADS) update_kernel(ff_cuda_update update) {
    __shared__ double shared[THREADS];
    __shared__ ff_factors factors[1];
    if (update.control->non_finite) return;
    const ff_cuda_chunk chunk = update.chunks[blockIdx.x];
    const ff_cuda_segment s = update.segments[chunk.segment];
    const ff_cuda_group &group = update.groups[s.group];
    const chunk_range range = range_of(s, chunk);
    const ff_factors f = factors_of(update, group, factors);
    const float ema_decay = group.ema_decay, ratio = ratio_of<RULE>(update, s, chunk, f, shared);
    for (uint64_t at = range.first + (uint64_t)threadIdx.x * 8; at < range.end;
         at += (uint64_t)THREADS * 8) {
        if (at + 8 <= range.end)
            step<RULE, 8>(s, f, ratio, ema_decay, at);
        else
            for (uint64_t one = at; one < range.end; one++)
                step<RULE, 1>(s, f, ratio, ema_decay, one);
    }
}

template <int RULE> static int launch(const ff_cuda_queue *queue, const ff_cuda_update *update) {
    const dim3 grid(update->chunk_count);
    return FF_LAUNCH(update_kernel<RULE>, grid, dim3(THREADS), 0, queue->stream, *update);
}
template <int RULE>
static int launch_measured(const ff_cuda_queue *queue, const ff_cuda_update *update) {
    const dim3 grid(update->chunk_count);
    if (!update->sums) return FF_CUDA_INVALID_VALUE;
    const int status =
        FF_LAUNCH(measure_kernel<RULE>, grid, dim3(THREADS), 0, queue->stream, *update);
    return status ? status : launch<RULE>(queue, update);
}

extern "C" int ff_cuda_update_run(const ff_cuda_queue *queue, const ff_cuda_update *update,
                                  ff_rule rule) {
    if (!update->chunk_count) return FF_CUDA_OK;
    if (!update->rate_steps) return FF_CUDA_INVALID_VALUE;
    switch (rule) {
    case FF_RULE_SGD: return launch<FF_RULE_SGD>(queue, update);
    case FF_RULE_ADAMW: return launch<FF_RULE_ADAMW>(queue, update);
    case FF_RULE_LARS: return launch_measured<FF_RULE_LARS>(queue, update);
    case FF_RULE_LAMB: return launch_measured<FF_RULE_LAMB>(queue, update);
    default: return FF_CUDA_INVALID_VALUE;
    }
}

/* ---- the average of buffers ------------------------------------------------------------------ */

static __global__ void __launch_bounds__(THREADS)
    average_kernel(const ff_control *control, float decay, uint64_t count, const float *value,
                   float *average) {
    const uint64_t at = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (!control->non_finite && at < count)
        average[at] = decay * average[at] + (1.0f - decay) * value[at];
}

extern "C" int ff_cuda_average(const ff_cuda_queue *queue, const ff_control *control, float decay,
                               uint64_t count, const float *value, float *average) {
    if (!count) return FF_CUDA_OK;
    return FF_LAUNCH(average_kernel, ff_grid_over(count, THREADS), dim3(THREADS), 0, queue->stream,
                     control, decay, count, value, average);
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
    control->non_finite = control->halted;
    control->part = 0;
    control->step++;
}

extern "C" int ff_cuda_advance(const ff_cuda_queue *queue, const ff_cuda_update *update,
                               ff_outcome *ring, uint32_t ring_size) {
    if (ring && !ring_size) return FF_CUDA_INVALID_VALUE;
    return FF_LAUNCH(advance_kernel, dim3(1), dim3(1), 0, queue->stream, *update, ring, ring_size);
}
