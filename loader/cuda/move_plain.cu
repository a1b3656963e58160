/* Moves samples into a batch, one element at a time: any shapes and types. For jobs that move.cu
 * cannot do faster, and the kernel to read first. */
#include "loader/cuda/move.cuh"

enum { THREADS = 256, ELEMENTS = 16 * THREADS };

/* The bits of one element of the output, in its channel. */
static __device__ uint32_t plain_element(const ff_cuda_move &job, const ff_augment_params &params,
                                         const uint8_t *sample, int32_t row, int32_t column,
                                         uint32_t channel) {
    ff_move_box cut = ff_move_cutout(job, params);
    if (channel >= job.channels) return 0;
    if (row >= cut.top && row < cut.bottom && column >= cut.left && column < cut.right) return 0;
    int32_t height = (int32_t)job.height, width = (int32_t)job.width;
    if (params.flags & FF_AUGMENT_FLIP) column = (int32_t)job.out_width - 1 - column;
    row = (int32_t)ff_augment_line(&params, (uint32_t)row, job.out_height);
    int32_t y = params.y + row, x = params.x + column;
    if (job.pad_mode == FF_PAD_REFLECT) {
        y = ff_augment_reflect(y, height);
        x = ff_augment_reflect(x, width);
    }
    if (y < 0 || y >= height || x < 0 || x >= width) return job.black[channel];
    size_t at = job.from_layout == FF_CHW
                    ? ((size_t)channel * job.height + (size_t)y) * job.width + (size_t)x
                    : ((size_t)y * job.width + (size_t)x) * job.channels + channel;
    if (job.from != FF_U8) return ff_cuda_convert(sample, at, job.from, job.to);
    size_t entry = (size_t)channel * 256 + sample[at];
    return job.to == FF_F32 ? ((const uint32_t *)job.table)[entry]
                            : ((const uint16_t *)job.table)[entry];
}

/* Block (i, r): elements [i, i + 1) * ELEMENTS of row r; rows advance by the grid's size. */
static __global__ void __launch_bounds__(THREADS) move_plain_kernel(ff_cuda_move job) {
    size_t elements = (size_t)job.out_height * job.out_width * job.out_channels;
    for (uint32_t row = blockIdx.y; row < job.rows; row += gridDim.y) {
        ff_move_row found = ff_move_find(job, row);
        if (blockIdx.x == 0) ff_move_columns(job, row, found);
        const uint8_t *sample = ff_move_sample(job, found);
        size_t end = min((size_t)(blockIdx.x + 1) * ELEMENTS, elements);
        for (size_t i = (size_t)blockIdx.x * ELEMENTS + threadIdx.x; i < end; i += THREADS) {
            size_t pixel = i / job.out_channels, line = pixel / job.out_width;
            uint32_t bits = 0;
            if (!found.padding)
                bits = plain_element(job, job.params[row], sample, (int32_t)line,
                                     (int32_t)(pixel - line * job.out_width),
                                     (uint32_t)(i - pixel * job.out_channels));
            size_t at = row * elements + i;
            if (job.to == FF_F32)
                ((uint32_t *)job.data)[at] = bits;
            else
                ((uint16_t *)job.data)[at] = (uint16_t)bits;
        }
    }
}

extern "C" int ff_cuda_move_plain(const ff_cuda_move *job, ff_cuda_stream stream) {
    uint64_t elements = (uint64_t)job->out_height * job->out_width * job->out_channels;
    uint64_t parts = (elements + ELEMENTS - 1) / ELEMENTS;
    if (parts > 0x7fffffffu) return FF_CUDA_INVALID_VALUE;
    dim3 grid((unsigned)parts, job->rows < 65535 ? job->rows : 65535);
    return FF_LAUNCH(move_plain_kernel, grid, THREADS, 0, stream, *job);
}
