/* Batch norm, backward: sums of g and g * (x - mean) over the rows, then
 * dx = a[c] * g + b[c] * x + o[c], with g = (dy + dy2) * activation'(.). */
#include "train/compute/cuda/kernels/activation.cuh"
#include "train/compute/cuda/kernels/norm_channels.cuh"
#include "train/compute/cuda/kernels/pool_place.cuh"

/* The source of the activation's derivative. */
enum slope_source {
    SLOPE_NONE,
    SLOPE_RELU_X, /* ReLU: z computed again from x */
    SLOPE_RELU_Y, /* ReLU with a residual: the sign of y */
    SLOPE_MASK,   /* ReLU: a bit written by the forward pass */
    SLOPE_RELU6_X,
    SLOPE_GELU_X
};

struct backward_arrays {
    const uint4 *x, *y, *dy, *dy2;
    const uint8_t *mask;
    uint4 *dresidual, *dx;
};

/* A thread's vectors of one row, as loaded. */
struct loaded_row {
    uint4 x, y, dy, dy2;
    unsigned mask;
};

template <int source>
static __device__ __forceinline__ loaded_row load_row(const backward_arrays &arrays, size_t at) {
    loaded_row row;
    row.x = arrays.x[at];
    row.dy = arrays.dy[at];
    if (arrays.dy2) row.dy2 = arrays.dy2[at];
    if (source == SLOPE_RELU_Y) row.y = arrays.y[at];
    if (source == SLOPE_MASK) row.mask = arrays.mask[at];
    return row;
}

/* x and g of a row. */
template <typename T, int source, int lanes>
static __device__ __forceinline__ void
gradient_of(const backward_arrays &arrays, const loaded_row &row, const ff_norm_affines<lanes> &of,
            float (&x)[lanes], float (&g)[lanes]) {
    float y[lanes], more[lanes];
    ff_vector<T>::unpack(row.x, x);
    ff_vector<T>::unpack(row.dy, g);
    if (arrays.dy2) {
        ff_vector<T>::unpack(row.dy2, more);
#pragma unroll
        for (int i = 0; i < lanes; i++) g[i] += more[i];
    }
    if (source == SLOPE_RELU_Y) ff_vector<T>::unpack(row.y, y);
#pragma unroll
    for (int i = 0; i < lanes; i++) {
        if (source == SLOPE_MASK && !(row.mask >> i & 1)) g[i] = 0;
        if (source == SLOPE_MASK || source == SLOPE_NONE) continue;
        float z = source == SLOPE_RELU_Y ? y[i] : ff_norm_affine(x[i], of.scale[i], of.shift[i]);
        if (source == SLOPE_RELU_X || source == SLOPE_RELU_Y)
            g[i] = ff_activate_backward<T, FF_ACTIVATION_RELU>(z, g[i]);
        if (source == SLOPE_RELU6_X) g[i] = ff_activate_backward<T, FF_ACTIVATION_RELU6>(z, g[i]);
        if (source == SLOPE_GELU_X) g[i] = ff_activate_backward<T, FF_ACTIVATION_GELU>(z, g[i]);
    }
}

/* Whether z is computed again from x, which needs scale and shift in registers. */
template <int source> struct z_again {
    static constexpr bool value =
        source == SLOPE_RELU_X || source == SLOPE_RELU6_X || source == SLOPE_GELU_X;
};
/* Resident blocks per multiprocessor of the kernel that sums. */
template <int source> struct sums_blocks {
    static constexpr int count = z_again<source>::value ? 2 : 3;
};

/* Rows that a thread loads before it uses them. */
enum { AHEAD = 2 };

/* sums: [parts][2][channels]: of g, and of g * (x - mean). */
template <typename T, int source>
static __global__ void __launch_bounds__(FF_COLUMN_THREADS, sums_blocks<source>::count)
    sums_kernel(ff_columns columns, ff_norm norm, backward_arrays arrays, float *sums) {
    enum { lanes = ff_lanes<T>::count };
    __shared__ ff_tree<lanes> tree;
    const ff_tile tile = ff_tile_of(columns);
    float sum[lanes], products[lanes];
#pragma unroll
    for (int i = 0; i < lanes; i++) sum[i] = products[i] = 0;
    if (tile.active) {
        float mean[lanes];
        ff_norm_affines<lanes> of;
        if (z_again<source>::value) ff_norm_affines_load(norm, true, tile.vector * lanes, &of);
        ff_load_floats(norm.mean + tile.vector * lanes, mean);
        for (size_t row = tile.row; row < tile.end; row += AHEAD * tile.stride) {
            loaded_row loaded[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (row + k * tile.stride < tile.end)
                    loaded[k] = load_row<source>(arrays, (row + k * tile.stride) * columns.vectors +
                                                             tile.vector);
#pragma unroll
            for (int k = 0; k < AHEAD; k++) {
                if (row + k * tile.stride >= tile.end) continue;
                float x[lanes], g[lanes];
                gradient_of<T, source>(arrays, loaded[k], of, x, g);
                if (arrays.dresidual) {
                    /* the sums are of the rounded values, which the second pass will read */
                    uint4 packed = ff_vector<T>::pack(g);
                    ff_vector<T>::unpack(packed, g);
                    arrays.dresidual[(row + k * tile.stride) * columns.vectors + tile.vector] =
                        packed;
                }
#pragma unroll
                for (int i = 0; i < lanes; i++) {
                    sum[i] += g[i];
                    products[i] += g[i] * (x[i] - mean[i]);
                }
            }
        }
    }
    ff_tree_sum(columns, tile, &tree, sum);
    ff_tree_sum(columns, tile, &tree, products);
    if (tile.y == 0 && tile.vector < columns.vectors) {
        float *to = sums + (size_t)blockIdx.x * 2 * columns.channels + tile.vector * lanes;
        ff_store_floats(to, sum);
        ff_store_floats(to + columns.channels, products);
    }
}

/* factors: [3][channels]: a, b, o. */
static __device__ __forceinline__ void write_factors(const ff_norm &norm, int channel,
                                                     const ff_norm_sums &sums, float *factors) {
    const int channels = ff_tensor_padded_channels(&norm.shape);
    const double m = norm.held ? INFINITY : sums.m;
    const double inv_std = (double)norm.inv_std[channel], mean = (double)norm.mean[channel];
    double a = norm.gamma ? (double)norm.gamma[channel] * inv_std : inv_std;
    double b = -a * inv_std * sums.products / m;
    factors[channel] = (float)a;
    factors[channels + channel] = (float)b;
    factors[2 * channels + channel] = (float)(-a * sums.sum / m - b * mean);
}

static __global__ void __launch_bounds__(64)
    join_kernel(ff_norm norm, int channels, float *factors) {
    const int channel = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (channel < channels)
        write_factors(norm, channel, ff_norm_join_sums(&norm, channel), factors);
}

static __global__ void __launch_bounds__(FF_FINISH_ACROSS *FF_FINISH_DOWN)
    factors_kernel(ff_columns columns, ff_norm norm, const float *sums, float *dgamma, float *dbeta,
                   float *factors) {
    __shared__ double shared[FF_FINISH_ACROSS * FF_FINISH_DOWN];
    const int channel = (int)blockIdx.x * FF_FINISH_ACROSS + (int)threadIdx.x;
    double sum = 0, products = 0;
    for (int part = (int)threadIdx.y; part < columns.parts; part += FF_FINISH_DOWN) {
        const float *from = sums + (size_t)part * 2 * columns.channels + channel;
        sum += (double)from[0];
        products += (double)from[columns.channels];
    }
    sum = ff_finish_sum(shared, sum);
    products = ff_finish_sum(shared, products);
    if (threadIdx.y) return;
    products *= (double)norm.inv_std[channel];
    if (dgamma) dgamma[channel] = (float)products;
    if (dbeta) dbeta[channel] = (float)sum;
    const ff_norm_sums own = {(double)columns.rows, sum, products};
    if (norm.ranks.count)
        ff_norm_tell(&norm, channel, sum, products);
    else
        write_factors(norm, channel, own, factors);
}

/* The max pool before the norm. */
struct pool_before {
    ff_pool_shape shape;
    const uint8_t *index;
};

/* Writes a row's gradient to the pixels of its window as the pool's backward pass does: where the
 * largest values are; 0 elsewhere, and to the pixels that the last windows leave over. */
template <typename T>
static __device__ __forceinline__ void
pass_on(const ff_pool_shape &shape, const ff_columns &columns, size_t row,
        const unsigned (&place)[2], uint4 rounded, uint4 *dx) {
    enum { lanes = ff_lanes<T>::count, NOWHERE = 256 };
    const ff_pool &pool = shape.pool;
    const ff_pixel at = ff_pixel_of(row, shape.by_out_w, shape.by_out_h);
    const int top = at.y * pool.stride, left = at.x * pool.stride;
    const int bottom = at.y + 1 < pool.output.h ? top + pool.stride : pool.input.h;
    const int right = at.x + 1 < pool.output.w ? left + pool.stride : pool.input.w;
    float gradient[lanes], value[lanes];
    ff_vector<T>::unpack(rounded, gradient);
    for (int h = top; h < bottom; h++)
        for (int w = left; w < right; w++) {
            const bool inside = h < top + pool.stride && w < left + pool.stride;
            const unsigned here =
                inside ? (unsigned)((h - top) * pool.kernel_w + w - left) : (unsigned)NOWHERE;
#pragma unroll
            for (int i = 0; i < lanes; i++) /* a sum: -0 becomes 0 */
                value[i] = 0.0f + (ff_place_at(place, i) == here ? gradient[i] : 0.0f);
            dx[(((size_t)at.n * pool.input.h + h) * pool.input.w + w) * columns.vectors] =
                ff_vector<T>::pack(value);
        }
}

template <typename T, int source, bool pools>
static __global__ void __launch_bounds__(FF_COLUMN_THREADS)
    apply_kernel(ff_columns columns, ff_norm norm, backward_arrays arrays, pool_before pool,
                 const float *a_of, const float *b_of, const float *o_of) {
    enum { lanes = ff_lanes<T>::count };
    const ff_tile tile = ff_tile_of(columns);
    if (!tile.active) return;
    float a[lanes], b[lanes], o[lanes];
    ff_norm_affines<lanes> of;
    if (z_again<source>::value) ff_norm_affines_load(norm, true, tile.vector * lanes, &of);
    ff_load_floats(a_of + tile.vector * lanes, a);
    ff_load_floats(b_of + tile.vector * lanes, b);
    ff_load_floats(o_of + tile.vector * lanes, o);
    for (size_t row = tile.row; row < tile.end; row += AHEAD * tile.stride) {
        loaded_row loaded[AHEAD];
        unsigned place[AHEAD][2];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (row + k * tile.stride >= tile.end) continue;
            const size_t at = (row + k * tile.stride) * columns.vectors + tile.vector;
            loaded[k] = load_row<source>(arrays, at);
            if (pools) ff_load_places<lanes>(pool.index + at * lanes, place[k]);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (row + k * tile.stride >= tile.end) continue;
            float x[lanes], g[lanes];
            gradient_of<T, source>(arrays, loaded[k], of, x, g);
#pragma unroll
            for (int i = 0; i < lanes; i++) g[i] = a[i] * g[i] + (b[i] * x[i] + o[i]);
            const uint4 rounded = ff_vector<T>::pack(g);
            if (pools)
                pass_on<T>(pool.shape, columns, row + k * tile.stride, place[k], rounded,
                           arrays.dx + tile.vector);
            else
                arrays.dx[(row + k * tile.stride) * columns.vectors + tile.vector] = rounded;
        }
    }
}

template <typename T, int source>
static int backward(const ff_cuda_queue *queue, const ff_norm_backward *norm, void *scratch,
                    bool joined) {
    const ff_norm *forward = &norm->forward;
    ff_columns columns, mapping;
    const int lanes = ff_lanes<T>::count;
    if (!ff_columns_plan(queue, &forward->shape, lanes, sums_blocks<source>::count, &columns) ||
        !ff_columns_map(queue, &forward->shape, lanes, &mapping))
        return FF_CUDA_INVALID_VALUE;
    backward_arrays arrays = {(const uint4 *)forward->x,
                              (const uint4 *)forward->y,
                              (const uint4 *)norm->dy,
                              (const uint4 *)norm->dy2,
                              forward->mask,
                              (uint4 *)norm->dresidual,
                              (uint4 *)norm->dx};
    pool_before pool = {{}, norm->index};
    if (norm->pool && (norm->dresidual || norm->dx == norm->dy || !ff_pool_tiles(norm->pool) ||
                       !ff_pool_shape_make(norm->pool, &pool.shape)))
        return FF_CUDA_INVALID_VALUE;
    const dim3 block = dim3(FF_COLUMN_THREADS);
    float *sums = (float *)scratch;
    float *factors = sums + (size_t)columns.parts * 2 * columns.channels;
    int status = 0;
    if (joined) {
        status = FF_LAUNCH(join_kernel, dim3((unsigned)(columns.channels + 63) / 64), dim3(64), 0,
                           queue->stream, *forward, columns.channels, factors);
    } else {
        status = FF_LAUNCH((sums_kernel<T, source>), ff_columns_grid(&columns), block, 0,
                           queue->stream, columns, *forward, arrays, sums);
        if (status) return status;
        status = FF_LAUNCH(factors_kernel, dim3((unsigned)columns.channels / FF_FINISH_ACROSS),
                           dim3(FF_FINISH_ACROSS, FF_FINISH_DOWN), 0, queue->stream, columns,
                           *forward, (const float *)sums, norm->dgamma, norm->dbeta, factors);
        if (forward->ranks.count) return status;
    }
    if (status) return status;
    const float *a = factors, *b = a + columns.channels, *o = b + columns.channels;
    if (arrays.dresidual) { /* it already holds g */
        arrays.dy = arrays.dresidual;
        arrays.dy2 = NULL;
        return FF_LAUNCH((apply_kernel<T, SLOPE_NONE, false>), ff_columns_grid(&mapping), block, 0,
                         queue->stream, mapping, *forward, arrays, pool, a, b, o);
    }
    return FF_LAUNCH((norm->pool ? apply_kernel<T, source, true> : apply_kernel<T, source, false>),
                     ff_columns_grid(&mapping), block, 0, queue->stream, mapping, *forward, arrays,
                     pool, a, b, o);
}

extern "C" int ff_cuda_norm_backward_run(const ff_cuda_queue *queue, const ff_norm_backward *norm,
                                         void *scratch, bool joined) {
    return ff_by_dtype(queue->dtype, [&](auto example) {
        typedef decltype(example) T;
        const bool residual = norm->forward.residual != NULL;
        switch (norm->forward.activation) {
        case FF_ACTIVATION_NONE: return backward<T, SLOPE_NONE>(queue, norm, scratch, joined);
        case FF_ACTIVATION_RELU:
            if (norm->forward.mask) return backward<T, SLOPE_MASK>(queue, norm, scratch, joined);
            if (residual) return backward<T, SLOPE_RELU_Y>(queue, norm, scratch, joined);
            return backward<T, SLOPE_RELU_X>(queue, norm, scratch, joined);
        case FF_ACTIVATION_RELU6:
            if (!residual) return backward<T, SLOPE_RELU6_X>(queue, norm, scratch, joined);
            break;
        case FF_ACTIVATION_GELU:
            if (!residual) return backward<T, SLOPE_GELU_X>(queue, norm, scratch, joined);
        }
        return FF_CUDA_INVALID_VALUE;
    });
}

extern "C" int ff_cuda_norm_backward_apply(const ff_cuda_queue *queue, const ff_tensor *shape,
                                           const void *g, const void *x, const float *factors,
                                           void *dx) {
    return ff_by_dtype(queue->dtype, [&](auto example) {
        typedef decltype(example) T;
        ff_columns columns;
        if (!ff_columns_map(queue, shape, ff_lanes<T>::count, &columns))
            return FF_CUDA_INVALID_VALUE;
        ff_norm none = {};
        backward_arrays arrays = {(const uint4 *)x, NULL, (const uint4 *)g, NULL, NULL, NULL,
                                  (uint4 *)dx};
        return FF_LAUNCH((apply_kernel<T, SLOPE_NONE, false>), ff_columns_grid(&columns),
                         dim3(FF_COLUMN_THREADS), 0, queue->stream, columns, none, arrays,
                         pool_before{}, factors, factors + columns.channels,
                         factors + 2 * columns.channels);
    });
}
