/* Test-time views: pixels are copied in the widest words that divide a pixel; and weighted sums. */
#include "train/compute/cuda/kernels/vectors.cuh"
#include "train/compute/cuda/kernels/views.h"

enum { THREADS = 256, AHEAD = 4, BLOCK = THREADS * AHEAD };

/* An image's row as words: [n * h][w * words]. */
struct view_shape {
    ff_image_view view;
    unsigned words; /* per pixel */
    size_t count;   /* of all words */
    ff_divider by_words, by_w, by_h;
};

static __device__ __forceinline__ int reflect(int at, int size) {
    at = at < 0 ? -at : at;
    return at >= size ? 2 * (size - 1) - at : at;
}

template <typename Word>
static __global__ void __launch_bounds__(THREADS)
    view_kernel(view_shape shape, const Word *x, Word *y) {
    const ff_image_view &view = shape.view;
    const int h = view.shape.h, w = view.shape.w;
    Word word[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        const size_t at = (size_t)blockIdx.x * BLOCK + k * THREADS + threadIdx.x;
        if (at >= shape.count) continue;
        unsigned part, j, i;
        const unsigned pixel = ff_divide((unsigned)at, shape.by_words, &part);
        const unsigned row = ff_divide(pixel, shape.by_w, &j);
        const unsigned n = ff_divide(row, shape.by_h, &i);
        const int from_j = reflect((view.mirror ? w - 1 - (int)j : (int)j) + view.right, w);
        const int from_i = reflect((int)i + view.down, h);
        word[k] = __ldg(x + ((size_t)(n * h + from_i) * w + from_j) * shape.words + part);
    }
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        const size_t at = (size_t)blockIdx.x * BLOCK + k * THREADS + threadIdx.x;
        if (at < shape.count) y[at] = word[k];
    }
}

template <typename Word>
static int make_view(const ff_cuda_queue *queue, const ff_image_view *view, size_t pixel_bytes,
                     const void *x, void *y) {
    view_shape shape;
    shape.view = *view;
    shape.words = (unsigned)(pixel_bytes / sizeof(Word));
    shape.count = ff_cuda_rows(&view->shape) * shape.words;
    if (!shape.count || shape.count >> 31) return FF_CUDA_INVALID_VALUE;
    shape.by_words = ff_divider_make((int)shape.words);
    shape.by_w = ff_divider_make(view->shape.w);
    shape.by_h = ff_divider_make(view->shape.h);
    return FF_LAUNCH(view_kernel<Word>, ff_grid_over(shape.count, BLOCK), dim3(THREADS), 0,
                     queue->stream, shape, (const Word *)x, (Word *)y);
}

extern "C" int ff_cuda_view(const ff_cuda_queue *queue, const ff_image_view *view, const void *x,
                            void *y) {
    const int n = view->shape.n, h = view->shape.h, w = view->shape.w;
    const bool within = view->down < h && -view->down < h && view->right < w && -view->right < w;
    if (n < 1 || !within) return FF_CUDA_INVALID_VALUE;
    return ff_by_dtype(queue->dtype, [&](auto example) {
        const size_t bytes = (size_t)ff_tensor_padded_channels(&view->shape) * sizeof example;
        if (bytes % 16 == 0) return make_view<uint4>(queue, view, bytes, x, y);
        if (bytes % 8 == 0) return make_view<uint2>(queue, view, bytes, x, y);
        if (bytes % 4 == 0) return make_view<unsigned>(queue, view, bytes, x, y);
        return make_view<unsigned short>(queue, view, bytes, x, y);
    });
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    weigh_kernel(size_t count, float weight, bool first, const T *x, float *to) {
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at < count) to[at] = (first ? 0.0f : to[at]) + weight * ff_to_float(x[at]);
}

extern "C" int ff_cuda_weigh(const ff_cuda_queue *queue, ff_dtype dtype, size_t count, float weight,
                             bool first, const void *x, float *to) {
    if (!count) return FF_CUDA_OK;
    return ff_by_dtype(dtype, [&](auto example) {
        typedef decltype(example) T;
        return FF_LAUNCH(weigh_kernel<T>, ff_grid_over(count, THREADS), dim3(THREADS), 0,
                         queue->stream, count, weight, first, (const T *)x, to);
    });
}
