/* y = act(x * scale + shift + residual): the elementwise pass of a batch norm; the residual may
 * have a norm of its own. */
#include "train/compute/cuda/kernels/activation.cuh"
#include "train/compute/cuda/kernels/norm_channels.cuh"

/* Rows that a thread loads before it uses them. */
enum { AHEAD = FF_COLUMN_AHEAD };

enum { ADD_NOTHING, ADD_RESIDUAL, ADD_NORM /* of the residual */ };

template <typename T, int activation, int add>
static __global__ void __launch_bounds__(FF_COLUMN_THREADS)
    apply_kernel(ff_columns columns, ff_norm norm, ff_norm other, bool training) {
    enum { lanes = ff_lanes<T>::count };
    const ff_tile tile = ff_tile_of(columns);
    if (!tile.active) return;
    ff_norm_affines<lanes> of, of_other;
    ff_norm_affines_load(norm, training, tile.vector * lanes, &of);
    if (add == ADD_NORM) ff_norm_affines_load(other, training, tile.vector * lanes, &of_other);
    /* no __ldg: y may be x or the residual */
    const uint4 *x = (const uint4 *)norm.x + tile.vector;
    const uint4 *residual = (const uint4 *)norm.residual + tile.vector;
    uint4 *y = (uint4 *)norm.y + tile.vector;
    for (size_t row = tile.row; row < tile.end; row += AHEAD * tile.stride) {
        uint4 raw[AHEAD], raw_residual[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            size_t at = (row + k * tile.stride) * columns.vectors;
            if (row + k * tile.stride < tile.end) {
                raw[k] = x[at];
                if (add) raw_residual[k] = residual[at];
            }
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (row + k * tile.stride >= tile.end) continue;
            float value[lanes], more[lanes];
            unsigned positive = 0;
            ff_vector<T>::unpack(raw[k], value);
            if (add) ff_vector<T>::unpack(raw_residual[k], more);
            if (add == ADD_NORM) {
#pragma unroll
                for (int i = 0; i < lanes; i++)
                    more[i] = ff_norm_affine(more[i], of_other.scale[i], of_other.shift[i]);
                ff_vector<T>::unpack(ff_vector<T>::pack(more), more); /* as rounded */
            }
#pragma unroll
            for (int i = 0; i < lanes; i++) {
                float z = ff_norm_affine(value[i], of.scale[i], of.shift[i]);
                if (add) z += more[i];
                value[i] = ff_activate<T, activation>(z);
                if (activation == FF_ACTIVATION_RELU) positive |= (unsigned)(z > 0) << i;
            }
            if (activation == FF_ACTIVATION_RELU && norm.mask)
                norm.mask[(row + k * tile.stride) * columns.vectors + tile.vector] =
                    (uint8_t)positive;
            y[(row + k * tile.stride) * columns.vectors] = ff_vector<T>::pack(value);
        }
    }
}

extern "C" int ff_cuda_norm_apply(const ff_cuda_queue *queue, const ff_norm *norm, bool training) {
    const ff_norm other = norm->residual_norm ? *norm->residual_norm : ff_norm{};
    return ff_by_dtype(queue->dtype, [&](auto example) {
        typedef decltype(example) T;
        return ff_by_activation(norm->activation, [&](auto chosen) {
            constexpr int activation = decltype(chosen)::value;
            constexpr bool adds = activation <= FF_ACTIVATION_RELU; /* takes a residual */
            constexpr int added = adds ? activation : (int)FF_ACTIVATION_NONE;
            ff_columns columns;
            if (!ff_columns_map(queue, &norm->shape, ff_lanes<T>::count, &columns) ||
                (norm->residual && !adds) || (norm->residual_norm && !norm->residual))
                return FF_CUDA_INVALID_VALUE;
            auto chosen_apply_kernel = norm->residual_norm ? apply_kernel<T, added, ADD_NORM>
                                       : norm->residual    ? apply_kernel<T, added, ADD_RESIDUAL>
                                                        : apply_kernel<T, activation, ADD_NOTHING>;
            return FF_LAUNCH(chosen_apply_kernel, ff_columns_grid(&columns),
                             dim3(FF_COLUMN_THREADS), 0, queue->stream, columns, *norm, other,
                             training);
        });
    });
}

template <typename T>
static __global__ void __launch_bounds__(64)
    scale_shift_kernel(ff_norm norm, int channels, bool training, T *scale, T *shift) {
    enum { lanes = ff_lanes<T>::count };
    const int channel = (int)(blockIdx.x * blockDim.x + threadIdx.x) * lanes;
    if (channel >= channels) return;
    ff_norm_affines<lanes> of;
    ff_norm_affines_load(norm, training, channel, &of);
    *(uint4 *)(scale + channel) = ff_vector<T>::pack(of.scale);
    *(uint4 *)(shift + channel) = ff_vector<T>::pack(of.shift);
}

extern "C" int ff_cuda_norm_scale_shift(const ff_cuda_queue *queue, const ff_norm *norm,
                                        bool training, void *scale, void *shift) {
    return ff_by_dtype(queue->dtype, [&](auto example) {
        typedef decltype(example) T;
        enum { step = 64 * ff_lanes<T>::count };
        const int channels = ff_tensor_padded_channels(&norm->shape);
        if (channels < 8 || channels % 8) return FF_CUDA_INVALID_VALUE;
        return FF_LAUNCH(scale_shift_kernel<T>, dim3((unsigned)(channels + step - 1) / step),
                         dim3(64), 0, queue->stream, *norm, channels, training, (T *)scale,
                         (T *)shift);
    });
}
