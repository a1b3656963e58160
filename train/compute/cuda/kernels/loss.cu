/* Softmax cross-entropy or binary cross entropy in three launches: counts of samples (one block),
 * rows (a warp each: loss, gradient), sums and outcome (one block). */
#include "train/compute/cuda/kernels/eights.cuh"
#include "train/compute/cuda/kernels/loss.h"

enum { ONE_BLOCK = 512, ROW_THREADS = 64, ROWS = ROW_THREADS / 32 };
static const unsigned ALL = 0xffffffffu;

/* Scratch: this, then [n] f64 losses, then [n] i32: 1 = correct. */
struct loss_head {
    unsigned long long count;
    double weight;  /* the divisor of the mean */
    int bad_sample; /* INT_MAX = no bad sample */
    int unused;
};
struct loss_scratch {
    loss_head *head;
    double *losses;
    int *right;
};
static loss_scratch scratch_in(void *scratch, int n) {
    loss_head *head = (loss_head *)scratch;
    double *losses = (double *)(head + 1);
    return loss_scratch{head, losses, (int *)(losses + n)};
}

extern "C" size_t ff_cuda_loss_scratch(int n) {
    return sizeof(loss_head) + (size_t)n * (sizeof(double) + sizeof(int));
}

static __device__ __forceinline__ long long label_at(const ff_loss &loss, int n) {
    return loss.label_dtype == FF_I64 ? (long long)((const int64_t *)loss.labels)[n]
                                      : (long long)((const int32_t *)loss.labels)[n];
}

/* A sample's own label and its partner's, with the weight of its own; counts: has a loss. */
struct target {
    int label, other;
    float share;
    bool counts, bad;
};
static __device__ __forceinline__ target target_of(const ff_loss &loss, int n) {
    target t;
    long long label = label_at(loss, n), other = label;
    t.bad = label < -1 || label >= loss.classes;
    t.share = loss.mix ? loss.mix[n] : 1.0f;
    if ((n ^ 1) >= loss.n) t.share = 1.0f;
    if (t.share != 1.0f) other = label_at(loss, n ^ 1);
    t.counts = label >= 0 && label < loss.classes && other >= 0 && other < loss.classes &&
               (!loss.weights || loss.weights[n] != 0);
    t.label = (int)label;
    t.other = (int)other;
    return t;
}

static __device__ __forceinline__ float class_weight(const ff_loss &loss, int c) {
    return loss.class_weights ? loss.class_weights[c] : 1.0f;
}

static __global__ void __launch_bounds__(ONE_BLOCK) count_kernel(ff_loss loss, loss_scratch to) {
    __shared__ unsigned long long counts[ONE_BLOCK];
    __shared__ double weights[ONE_BLOCK];
    __shared__ int bads[ONE_BLOCK];
    const int me = (int)threadIdx.x;
    unsigned long long count = 0;
    double weight = 0;
    int bad = 0x7fffffff;
    for (int n = me; n < loss.n; n += ONE_BLOCK) {
        const target t = target_of(loss, n);
        count += t.counts;
        const bool counted = loss.mix || loss.form.kind != FF_LOSS_CROSS_ENTROPY;
        if (t.counts) weight += counted ? 1.0 : (double)class_weight(loss, t.label);
        if (t.bad) bad = min(bad, n);
    }
    counts[me] = count;
    weights[me] = weight;
    bads[me] = bad;
    for (int reach = ONE_BLOCK / 2; reach > 0; reach /= 2) {
        __syncthreads();
        if (me < reach) {
            counts[me] += counts[me + reach];
            weights[me] += weights[me + reach];
            bads[me] = min(bads[me], bads[me + reach]);
        }
    }
    if (me == 0) {
        to.head->count = counts[0];
        to.head->weight = weights[0];
        to.head->bad_sample = bads[0];
    }
}

/* Loops over the row's logits, eight per lane and step; body(first class, values). */
template <typename Body>
static __device__ __forceinline__ void each_eight(const float *row, int stride, Body body) {
    for (int c = (int)(threadIdx.x & 31) * 8; c < stride; c += 32 * 8) {
        float value[8];
        ff_load_eight(row + c, value);
        body(c, value);
    }
}

static __device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int change = 16; change > 0; change /= 2) value += __shfl_xor_sync(ALL, value, change);
    return value;
}

template <typename T> static __device__ void zero_row(T *gradient, int stride) {
    const float zeros[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int c = (int)(threadIdx.x & 31) * 8; c < stride; c += 32 * 8)
        ff_store_eight(gradient + c, zeros);
}

/* The weight of class c among the labels. */
static __device__ __forceinline__ float share_of(const target &t, int c) {
    return (c == t.label ? t.share : 0.0f) + (c == t.other ? 1.0f - t.share : 0.0f);
}

/* The first maximum: the same as in a loop from class 0, in which NaN is never larger, and never
 * exceeded if it comes first. */
static __device__ __forceinline__ void find_best(const ff_loss &loss, const float *row, float &best,
                                                 int &best_class) {
    const int classes = loss.classes;
    best = -INFINITY;
    best_class = 0x7fffffff;
    each_eight(row, loss.stride, [&](int c, const float(&value)[8]) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (c + i < classes && value[i] > best) {
                best = value[i];
                best_class = c + i;
            }
    });
#pragma unroll
    for (int change = 16; change > 0; change /= 2) {
        float other = __shfl_xor_sync(ALL, best, change);
        int other_class = __shfl_xor_sync(ALL, best_class, change);
        if (other > best || (other == best && other_class < best_class)) {
            best = other;
            best_class = other_class;
        }
    }
    const float first = row[0];
    if (best_class == 0x7fffffff || first != first) {
        best_class = 0;
        best = first;
    }
}

/* A row whose sum is not a number has no prediction. */
static __device__ __forceinline__ int is_right(const target &t, int best_class, float sum) {
    return sum == sum && best_class == (t.share >= 0.5f ? t.label : t.other);
}

/* By what a gradient is multiplied. */
static __device__ __forceinline__ float scale_of(const ff_loss &loss, const loss_scratch &to) {
    const float scale = loss.control ? loss.control->loss_scale : 1.0f;
    const double divisor = loss.divisor > 0 ? loss.divisor : to.head->weight;
    return divisor > 0 ? scale / (float)divisor : 0.0f;
}

/* A warp computes one row that counts. */
template <typename G>
static __device__ __forceinline__ void cross_entropy(const ff_loss &loss, const loss_scratch &to,
                                                     int n, const target &t, const float *row,
                                                     G *gradient) {
    const int classes = loss.classes, lane = (int)threadIdx.x & 31;
    float best;
    int best_class;
    find_best(loss, row, best, best_class);
    float sum = 0, apart = 0, mean = 0; /* of exp(logit - best), w * (logit - best), and w */
    each_eight(row, loss.stride, [&](int c, const float(&value)[8]) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (c + i < classes) {
                const float w = class_weight(loss, c + i);
                sum += expf(value[i] - best);
                apart += w * (value[i] - best);
                mean += w;
            }
    });
    sum = warp_sum(sum);
    apart = warp_sum(apart);
    mean = warp_sum(mean) / (float)classes;

    const float off = (float)(loss.smoothing / classes), on = (float)(1.0 - loss.smoothing);
    const float own = class_weight(loss, t.label), others = class_weight(loss, t.other);
    const double wanted = (double)others + (double)t.share * ((double)own - (double)others);
    if (lane == 0) {
        const double log_sum = log((double)sum), share = (double)t.share;
        double at_label = (double)own * ((double)row[t.label] - (double)best);
        if (t.share != 1.0f)
            at_label = share * at_label +
                       (1 - share) * (double)others * ((double)row[t.other] - (double)best);
        to.losses[n] = (1.0 - loss.smoothing) * (wanted * log_sum - at_label) +
                       loss.smoothing * ((double)mean * log_sum - (double)apart / classes);
        to.right[n] = is_right(t, best_class, sum);
    }
    if (!gradient) return;
    __syncwarp(); /* gradient may be logits: lane 0 has read what others now write */
    const float scale = scale_of(loss, to);
    const float whole = (float)(wanted + loss.smoothing * ((double)mean - wanted));
    const float inverse = 1.0f / sum;
    each_eight(row, loss.stride, [&](int c, const float(&value)[8]) {
        float out[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float share = share_of(t, c + i);
            float p = expf(value[i] - best) * inverse;
            const float w = c + i < classes ? class_weight(loss, c + i) : 0.0f;
            out[i] = c + i < classes ? scale * (whole * p - w * off - w * on * share) : 0.0f;
        }
        ff_store_eight(gradient + c, out);
    });
}

/* The same of binary cross entropy. */
template <typename G>
static __device__ __forceinline__ void binary(const ff_loss &loss, const loss_scratch &to, int n,
                                              const target &t, const float *row, G *gradient) {
    const int classes = loss.classes, lane = (int)threadIdx.x & 31;
    const double each = loss.form.kind == FF_LOSS_BCE ? 1.0 / classes : 1.0;
    const float rest = (float)ff_loss_target(&loss, 0);
    const double share = (double)t.share;
    const float own = (float)ff_loss_target(&loss, t.label == t.other ? 1 : share);
    const float others = (float)ff_loss_target(&loss, 1 - share);
    const float scale = gradient ? (float)((double)scale_of(loss, to) * each) : 0.0f;
    float best, sum = 0;
    int best_class;
    find_best(loss, row, best, best_class);
    __syncwarp(); /* gradient may be logits: all lanes have read what a lane now writes */
    each_eight(row, loss.stride, [&](int c, const float(&value)[8]) {
        float out[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const bool real = c + i < classes;
            const float w = real ? class_weight(loss, c + i) : 0.0f, x = value[i];
            const float wanted = c + i == t.label ? own : c + i == t.other ? others : rest;
            const float e = expf(-fabsf(x)), p = (x >= 0 ? 1.0f : e) / (1.0f + e);
            if (real) sum += w * (fmaxf(x, 0.0f) - x * wanted + log1pf(e));
            out[i] = real ? scale * w * (p - wanted) : 0.0f;
        }
        if (gradient) ff_store_eight(gradient + c, out);
    });
    sum = warp_sum(sum);
    if (lane == 0) {
        to.losses[n] = each * (double)sum;
        to.right[n] = is_right(t, best_class, sum);
    }
}

template <typename G>
static __global__ void __launch_bounds__(ROW_THREADS) rows_kernel(ff_loss loss, loss_scratch to) {
    const int n = (int)(blockIdx.x * ROWS + threadIdx.x / 32);
    if (n >= loss.n) return;
    const target t = target_of(loss, n);
    const float *row = loss.logits + (size_t)n * loss.stride;
    G *gradient = loss.gradient ? (G *)loss.gradient + (size_t)n * loss.stride : NULL;
    if (t.counts && loss.form.kind == FF_LOSS_CROSS_ENTROPY)
        return cross_entropy(loss, to, n, t, row, gradient);
    if (t.counts) return binary(loss, to, n, t, row, gradient);
    if ((threadIdx.x & 31) == 0) {
        to.losses[n] = 0;
        to.right[n] = 0;
    }
    if (gradient) zero_row(gradient, loss.stride);
}

static __global__ void __launch_bounds__(ONE_BLOCK) record_kernel(ff_loss loss, loss_scratch from) {
    __shared__ double sums[ONE_BLOCK];
    __shared__ int rights[ONE_BLOCK];
    const int me = (int)threadIdx.x;
    double sum = 0;
    int right = 0;
    for (int n = me; n < loss.n; n += ONE_BLOCK) {
        sum += from.losses[n];
        right += from.right[n];
    }
    sums[me] = sum;
    rights[me] = right;
    for (int reach = ONE_BLOCK / 2; reach > 0; reach /= 2) {
        __syncthreads();
        if (me < reach) {
            sums[me] += sums[me + reach];
            rights[me] += rights[me + reach];
        }
    }
    if (me) return;
    ff_outcome result = {};
    result.step = loss.control ? loss.control->step : 0;
    result.loss_sum = sums[0];
    result.weight = from.head->weight;
    result.count = (int64_t)from.head->count;
    result.correct = rights[0];
    result.bad_sample = from.head->bad_sample == 0x7fffffff ? -1 : from.head->bad_sample;
    loss.ring[result.step % loss.ring_size] = result;
    if (loss.control && sums[0] - sums[0] != 0) loss.control->halted = loss.control->non_finite = 1;
}

extern "C" int ff_cuda_loss(const ff_cuda_queue *queue, const ff_loss *loss) {
    const bool labels = loss->label_dtype == FF_I64 || loss->label_dtype == FF_I32;
    /* Loops pass their ends by up to ONE_BLOCK samples or elements. */
    if (loss->n > INT32_MAX - ONE_BLOCK || loss->stride > INT32_MAX - ONE_BLOCK)
        return FF_CUDA_INVALID_VALUE;
    if (loss->n < 1 || loss->classes < 1 || loss->stride < loss->classes || loss->stride % 8 ||
        !labels || loss->ring_size < 1)
        return FF_CUDA_INVALID_VALUE;
    const loss_scratch scratch = scratch_in(loss->scratch, loss->n);
    int status =
        FF_LAUNCH(count_kernel, dim3(1), dim3(ONE_BLOCK), 0, queue->stream, *loss, scratch);
    if (status) return status;
    status = ff_by_dtype(queue->dtype, [&](auto gradient) {
        return FF_LAUNCH(rows_kernel<decltype(gradient)>,
                         dim3((unsigned)(loss->n + ROWS - 1) / ROWS), dim3(ROW_THREADS), 0,
                         queue->stream, *loss, scratch);
    });
    if (status) return status;
    return FF_LAUNCH(record_kernel, dim3(1), dim3(ONE_BLOCK), 0, queue->stream, *loss, scratch);
}
