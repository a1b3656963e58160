/* Dropout on NHWC with the same masks as on the host. Reads and writes one array. */
#include "loader/sequence/philox.h"
#include "train/compute/cuda/kernels/columns.cuh"
#include "train/compute/cuda/kernels/pointwise.h"

struct mask {
    ff_dropout of;
    ff_divider by_pixels; /* pixels of a sample */
    unsigned pixels;
    float threshold, scale;
};

template <typename T>
static __global__ void __launch_bounds__(FF_COLUMN_THREADS)
    dropout_kernel(ff_columns columns, mask mask, const T *x, T *y) {
    enum { lanes = ff_lanes<T>::count };
    const ff_tile tile = ff_tile_of(columns);
    if (!tile.active) return;
    const uint32_t step = (uint32_t)*mask.of.step;
    const uint64_t rows = mask.of.rows ? mask.of.rows : (uint64_t)mask.of.shape.n;
    const uint64_t before = (mask.of.part ? *mask.of.part * rows : 0) + mask.of.first_row;
    const int channel = tile.vector * lanes;
    for (size_t row = tile.row; row < tile.end; row += tile.stride) {
        const size_t at = row * columns.vectors + tile.vector;
        unsigned pixel;
        const unsigned n = ff_divide((unsigned)row, mask.by_pixels, &pixel);
        float value[lanes];
        ff_vector<T>::unpack(((const uint4 *)x)[at], value);
        /* adjacent channels are adjacent elements only if a sample is one pixel */
        uint64_t element = ((before + n) * mask.of.shape.c + channel) * mask.pixels + pixel;
        uint64_t drawn = ~0ull;
        ff_random random = {};
#pragma unroll
        for (int i = 0; i < lanes; i++, element += mask.pixels) {
            if (channel + i >= mask.of.shape.c) {
                value[i] = 0;
                continue;
            }
            if (element / 4 != drawn) {
                drawn = element / 4;
                random =
                    ff_philox_draw(mask.of.seed, FF_DOMAIN_DROPOUT, step, drawn, mask.of.layer);
            }
            const unsigned which = (unsigned)element & 3; /* no index into registers */
            const uint32_t word = which < 2    ? which ? random.word[1] : random.word[0]
                                     : which == 2 ? random.word[2]
                                               : random.word[3];
            value[i] = ff_random_unit(word) >= mask.threshold ? value[i] * mask.scale : 0.0f;
        }
        ((uint4 *)y)[at] = ff_vector<T>::pack(value);
    }
}

extern "C" int ff_cuda_dropout(const ff_cuda_queue *queue, const ff_dropout *dropout, const void *x,
                               void *y) {
    return ff_by_dtype(queue->dtype, [&](auto example) {
        typedef decltype(example) T;
        const ff_tensor *shape = &dropout->shape;
        ff_columns columns;
        if (shape->n < 1 || shape->h < 1 || shape->w < 1 ||
            !ff_columns_map(queue, shape, ff_lanes<T>::count, &columns))
            return FF_CUDA_INVALID_VALUE;
        const int pixels = shape->h * shape->w;
        const mask mask = {*dropout, ff_divider_make(pixels), (unsigned)pixels,
                           (float)dropout->probability,
                           (float)(1.0 / (1.0 - dropout->probability))};
        return FF_LAUNCH(dropout_kernel<T>, ff_columns_grid(&columns), dim3(FF_COLUMN_THREADS), 0,
                         queue->stream, columns, mask, (const T *)x, (T *)y);
    });
}
