/* Depthwise 3 x 3 convolution: a thread keeps its channels' filter in registers and loops over
 * pixels. Forward and data gradient read one array (neighbouring pixels come from the L1 cache) and
 * write one; the weight gradient reads two. */
#include "train/compute/cuda/kernels/columns.cuh"
#include "train/compute/cuda/kernels/depthwise.h"

enum { TAPS = 9, RESIDENT = 2 /* blocks per multiprocessor, at 128 registers per thread */ };

struct depthwise_shape {
    ff_cuda_depthwise conv;
    ff_divider by_w, by_h, by_out_w, by_out_h;
};

static bool shape_make(const ff_cuda_depthwise *conv, depthwise_shape *shape) {
    const ff_tensor *in = &conv->input, *out = &conv->output;
    if (in->n < 1 || in->h < 1 || in->w < 1 || conv->stride < 1 || conv->stride > 2) return false;
    if (out->h != (in->h - 1) / conv->stride + 1 || out->w != (in->w - 1) / conv->stride + 1)
        return false;
    if (ff_cuda_rows(in) >> 31) return false;
    shape->conv = *conv;
    shape->by_w = ff_divider_make(in->w);
    shape->by_h = ff_divider_make(in->h);
    shape->by_out_w = ff_divider_make(out->w);
    shape->by_out_h = ff_divider_make(out->h);
    return true;
}

static __device__ __forceinline__ void pixel_of(size_t row, ff_divider by_width,
                                                ff_divider by_height, int *n, int *y, int *x) {
    unsigned column, line;
    const unsigned rest = ff_divide((unsigned)row, by_width, &column);
    *n = (int)ff_divide(rest, by_height, &line);
    *y = (int)line;
    *x = (int)column;
}

/* The pixel that tap (r, s) reads for pixel (y, x): of the input for an output pixel (forward), or
 * of the output's gradient for an input pixel (backward). -1 = no pixel. */
template <bool backward>
static __device__ __forceinline__ ptrdiff_t joined(const ff_cuda_depthwise &conv, int n, int y,
                                                   int x, int r, int s) {
    if (!backward) {
        const int h = y * conv.stride + r - 1, w = x * conv.stride + s - 1;
        if (h < 0 || h >= conv.input.h || w < 0 || w >= conv.input.w) return -1;
        return ((ptrdiff_t)n * conv.input.h + h) * conv.input.w + w;
    }
    int p = y + 1 - r, q = x + 1 - s; /* times the stride */
    if (p < 0 || q < 0) return -1;
    if (conv.stride == 2) {
        if ((p | q) & 1) return -1;
        p >>= 1;
        q >>= 1;
    }
    if (p >= conv.output.h || q >= conv.output.w) return -1;
    return ((ptrdiff_t)n * conv.output.h + p) * conv.output.w + q;
}

/* Keeps a vector packed: if the compiler unpacked all nine before the loop, they would not fit into
 * registers. */
static __device__ __forceinline__ void keep_packed(uint4 *raw) {
#ifdef __CUDA_ARCH__
    asm volatile("" : "+r"(raw->x), "+r"(raw->y), "+r"(raw->z), "+r"(raw->w));
#else
    (void)raw;
#endif
}

/* to[row] = sum over taps of weights[tap] * from[joined]. */
template <typename T, bool backward>
static __global__ void __launch_bounds__(FF_COLUMN_THREADS, RESIDENT)
    filter_kernel(ff_columns columns, depthwise_shape shape, const T *from, const T *weights,
                  T *to) {
    enum { lanes = ff_lanes<T>::count };
    const ff_tile tile = ff_tile_of(columns);
    if (!tile.active) return;
    uint4 filter[TAPS];
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
        filter[tap] = __ldg((const uint4 *)weights + (size_t)tap * columns.vectors + tile.vector);
    for (size_t row = tile.row; row < tile.end; row += tile.stride) {
        int n, y, x;
        pixel_of(row, backward ? shape.by_w : shape.by_out_w,
                 backward ? shape.by_h : shape.by_out_h, &n, &y, &x);
        uint4 raw[TAPS];
        bool in[TAPS];
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
            const ptrdiff_t at = joined<backward>(shape.conv, n, y, x, tap / 3, tap % 3);
            in[tap] = at >= 0;
            if (in[tap]) raw[tap] = __ldg((const uint4 *)from + at * columns.vectors + tile.vector);
        }
        float sum[lanes];
#pragma unroll
        for (int i = 0; i < lanes; i++) sum[i] = 0;
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
            if (!in[tap]) continue;
            float value[lanes], weight[lanes];
            ff_vector<T>::unpack(raw[tap], value);
            keep_packed(&filter[tap]);
            ff_vector<T>::unpack(filter[tap], weight);
#pragma unroll
            for (int i = 0; i < lanes; i++) sum[i] += value[i] * weight[i];
        }
        ((uint4 *)to)[row * columns.vectors + tile.vector] = ff_vector<T>::pack(sum);
    }
}

/* parts: [parts][TAPS][channels]. A thread sums one row of taps (blockIdx.z), so that its sums fit
 * into registers: x is read three times, two of them from the L2 cache. */
template <typename T>
static __global__ void __launch_bounds__(FF_COLUMN_THREADS, RESIDENT)
    weights_kernel(ff_columns columns, depthwise_shape shape, const T *x, const T *dy,
                   float *parts) {
    enum { lanes = ff_lanes<T>::count };
    __shared__ ff_tree<lanes> tree;
    const ff_tile tile = ff_tile_of(columns);
    const int r = (int)blockIdx.z;
    float sum[3][lanes];
#pragma unroll
    for (int s = 0; s < 3; s++)
#pragma unroll
        for (int i = 0; i < lanes; i++) sum[s][i] = 0;
    if (tile.active)
        for (size_t row = tile.row; row < tile.end; row += tile.stride) {
            int n, p, q;
            pixel_of(row, shape.by_out_w, shape.by_out_h, &n, &p, &q);
            uint4 raw[3];
            bool in[3];
#pragma unroll
            for (int s = 0; s < 3; s++) {
                const ptrdiff_t at = joined<false>(shape.conv, n, p, q, r, s);
                in[s] = at >= 0;
                if (in[s]) raw[s] = __ldg((const uint4 *)x + at * columns.vectors + tile.vector);
            }
            float gradient[lanes];
            ff_vector<T>::unpack(__ldg((const uint4 *)dy + row * columns.vectors + tile.vector),
                                 gradient);
#pragma unroll
            for (int s = 0; s < 3; s++) {
                if (!in[s]) continue;
                float value[lanes];
                ff_vector<T>::unpack(raw[s], value);
#pragma unroll
                for (int i = 0; i < lanes; i++) sum[s][i] += value[i] * gradient[i];
            }
        }
#pragma unroll
    for (int s = 0; s < 3; s++) {
        ff_tree_sum(columns, tile, &tree, sum[s]);
        if (tile.y == 0 && tile.vector < columns.vectors)
            ff_store_floats(parts + ((size_t)blockIdx.x * TAPS + r * 3 + s) * columns.channels +
                                tile.vector * lanes,
                            sum[s]);
    }
}

template <bool backward>
static int filter(const ff_cuda_queue *queue, const ff_cuda_depthwise *conv, const void *from,
                  const void *weights, void *to) {
    return ff_by_dtype(queue->dtype, [&](auto example) {
        typedef decltype(example) T;
        depthwise_shape shape;
        ff_columns columns;
        if (!shape_make(conv, &shape) ||
            !ff_columns_map(queue, backward ? &conv->input : &conv->output, ff_lanes<T>::count,
                            &columns))
            return FF_CUDA_INVALID_VALUE;
        return FF_LAUNCH((filter_kernel<T, backward>), ff_columns_grid(&columns),
                         dim3(FF_COLUMN_THREADS), 0, queue->stream, columns, shape, (const T *)from,
                         (const T *)weights, (T *)to);
    });
}

extern "C" int ff_cuda_depthwise_forward(const ff_cuda_queue *queue, const ff_cuda_depthwise *conv,
                                         const void *x, const void *weights, void *y) {
    return filter<false>(queue, conv, x, weights, y);
}

extern "C" int ff_cuda_depthwise_backward_data(const ff_cuda_queue *queue,
                                               const ff_cuda_depthwise *conv, const void *dy,
                                               const void *weights, void *dx) {
    return filter<true>(queue, conv, dy, weights, dx);
}

extern "C" int ff_cuda_depthwise_backward_weights(const ff_cuda_queue *queue,
                                                  const ff_cuda_depthwise *conv, const void *x,
                                                  const void *dy, float *dweights, void *scratch) {
    return ff_by_dtype(queue->dtype, [&](auto example) {
        typedef decltype(example) T;
        depthwise_shape shape;
        ff_columns columns;
        if (!shape_make(conv, &shape) ||
            !ff_columns_plan(queue, &conv->output, ff_lanes<T>::count, RESIDENT, &columns))
            return FF_CUDA_INVALID_VALUE;
        dim3 grid = ff_columns_grid(&columns);
        grid.z = 3;
        int status = FF_LAUNCH(weights_kernel<T>, grid, dim3(FF_COLUMN_THREADS), 0, queue->stream,
                               columns, shape, (const T *)x, (const T *)dy, (float *)scratch);
        if (status) return status;
        return ff_columns_finish(queue, (const float *)scratch, columns.parts,
                                 TAPS * columns.channels, dweights);
    });
}
