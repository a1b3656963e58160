/* The last step of column sums, and the size of their shared scratch. */
#include "train/compute/cuda/kernels/columns.cuh"

/* Partial results: at most two arrays of [parts][channels], and three rows of factors. */
extern "C" size_t ff_cuda_scratch(int multiprocessors, int channels) {
    /* 16-bit dtypes have the widest tiles, so the most parts */
    int slices = (channels / 8 + FF_COLUMN_ACROSS - 1) / FF_COLUMN_ACROSS;
    size_t parts =
        (size_t)ff_columns_parts(multiprocessors, FF_COLUMN_BLOCKS, slices > 0 ? slices : 1);
    return (2 * parts + 3) * (size_t)channels * sizeof(float);
}

static __global__ void __launch_bounds__(FF_FINISH_ACROSS *FF_FINISH_DOWN)
    finish_kernel(const float *from, int parts, int width, float *to) {
    __shared__ double shared[FF_FINISH_ACROSS * FF_FINISH_DOWN];
    const int column = (int)blockIdx.x * FF_FINISH_ACROSS + (int)threadIdx.x;
    double sum = 0;
    if (column < width)
        for (int part = (int)threadIdx.y; part < parts; part += FF_FINISH_DOWN)
            sum += (double)from[(size_t)part * width + column];
    sum = ff_finish_sum(shared, sum);
    if (column < width && threadIdx.y == 0) to[column] = (float)sum;
}

extern "C" int ff_columns_finish(const ff_cuda_queue *queue, const float *from, int parts,
                                 int width, float *to) {
    return FF_LAUNCH(
        finish_kernel, dim3((unsigned)(width + FF_FINISH_ACROSS - 1) / FF_FINISH_ACROSS),
        dim3(FF_FINISH_ACROSS, FF_FINISH_DOWN), 0, queue->stream, from, parts, width, to);
}
