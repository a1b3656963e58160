/* Copies a batch from the buffers that the other kernels wrote to a consumer's memory. */
#include "loader/cuda/kernel.h"

#include "loader/cuda/kernels.h"

enum { THREADS = 128, PIXELS = 256, TILES_MOST = 65535 };

static __device__ uint64_t set_of(const ff_cuda_sets &sets, uint64_t sample) {
    uint32_t set = 0;
    while (set + 1 < sets.count && sample >= sets.begin[set + 1]) set++;
    return set;
}

/* A block per row. */
static __global__ void __launch_bounds__(THREADS) give_kernel(ff_cuda_give job) {
    const uint32_t row = blockIdx.x, count = job.batch->at.count, beside = row ^ 1;
    const bool paired = row < count && beside < count;
    for (uint32_t i = 0; i < job.columns; i++) {
        const ff_cuda_give_column &column = job.column[i];
        uint32_t *to = column.to + (size_t)row * column.words;
        const uint32_t *from =
            column.from + (size_t)(column.other && paired ? beside : row) * column.words;
        if (column.from) {
            for (uint32_t k = threadIdx.x; k < column.words; k += THREADS) to[k] = from[k];
        } else if (threadIdx.x < 2) {
            uint64_t value = row < count ? job.params[row].sample : ~(uint64_t)0;
            if (column.sources && row < count) value = set_of(job.sets, value);
            to[threadIdx.x] = (uint32_t)(value >> 32 * threadIdx.x);
        }
    }
}

/* grid: (rows, tiles of pixels); a thread per pixel. Neighbouring threads read a pixel's channels
 * from the same cache lines, which the first channel's loads bring. */
template <typename T>
static __global__ void __launch_bounds__(PIXELS) planes_kernel(ff_cuda_planes job) {
    const size_t row = blockIdx.x;
    for (size_t pixel = (size_t)blockIdx.y * PIXELS + threadIdx.x; pixel < job.pixels;
         pixel += (size_t)gridDim.y * PIXELS) {
        const T *from = (const T *)job.from + (row * job.pixels + pixel) * job.from_channels;
        T *to = (T *)job.to + row * job.channels * job.pixels + pixel;
        for (uint32_t c = 0; c < job.channels; c++) to[c * job.pixels] = from[c];
    }
}

extern "C" int ff_cuda_give_launch(const ff_cuda_give *job, ff_cuda_stream stream) {
    if (job->columns > FF_CUDA_GIVE_COLUMNS) return FF_CUDA_INVALID_VALUE;
    if (job->rows == 0 || job->columns == 0) return FF_CUDA_OK;
    return FF_LAUNCH(give_kernel, job->rows, THREADS, 0, stream, *job);
}

extern "C" int ff_cuda_planes_launch(const ff_cuda_planes *job, ff_cuda_stream stream) {
    if (job->from_channels < job->channels) return FF_CUDA_INVALID_VALUE;
    if (job->rows == 0 || job->pixels == 0) return FF_CUDA_OK;
    const uint64_t tiles = (job->pixels - 1) / PIXELS + 1;
    const dim3 grid(job->rows, tiles < TILES_MOST ? (unsigned)tiles : (unsigned)TILES_MOST);
    if (job->element_bytes == 4)
        return FF_LAUNCH(planes_kernel<uint32_t>, grid, PIXELS, 0, stream, *job);
    if (job->element_bytes == 2)
        return FF_LAUNCH(planes_kernel<uint16_t>, grid, PIXELS, 0, stream, *job);
    if (job->element_bytes == 1)
        return FF_LAUNCH(planes_kernel<uint8_t>, grid, PIXELS, 0, stream, *job);
    return FF_CUDA_INVALID_VALUE;
}
