#include "loader/cuda/move.cuh"

extern "C" int ff_cuda_move_launch(const ff_cuda_move *job, ff_cuda_stream stream) {
    bool from = job->from == FF_U8
                    ? job->table != NULL
                    : job->from == FF_F16 || job->from == FF_BF16 || job->from == FF_F32;
    bool to = job->to == FF_F16 || job->to == FF_BF16 || job->to == FF_F32;
    if (!from || !to || job->channels == 0 || job->out_channels < job->channels ||
        job->columns > FF_CUDA_COLUMNS)
        return FF_CUDA_INVALID_VALUE;
    if (job->rows == 0) return FF_CUDA_OK;
    return ff_cuda_move_plain(job, stream);
}

extern "C" const ff_loader_kernels ff_loader_cuda_kernels = {
    ff_cuda_next_launch,
    ff_cuda_params_launch,
    ff_cuda_move_launch,
    ff_cuda_wide_launch,
};
