/* Batch norms and pools: the arguments of their kernels. */
#include "train/cuda/compute.h"

static ff_cuda_norm norm_of(const ff_compute *compute, const ff_norm *norm) {
    static const ff_cuda_activation activations[] = {
        [FF_ACTIVATION_NONE] = FF_CUDA_LINEAR,
        [FF_ACTIVATION_RELU] = FF_CUDA_RELU,
        [FF_ACTIVATION_GELU] = FF_CUDA_GELU,
    };
    return (ff_cuda_norm){
        .rows = ff_cuda_rows(&norm->shape),
        .channels = ff_tensor_padded_channels(&norm->shape),
        .dtype = compute->dtype,
        .activation = activations[norm->activation],
        .momentum = norm->momentum,
        .epsilon = norm->epsilon,
        .gamma = norm->gamma,
        .beta = norm->beta,
        .running_mean = norm->running_mean,
        .running_var = norm->running_var,
        .mean = norm->mean,
        .inv_std = norm->inv_std,
        .x = norm->x,
        .residual = norm->residual,
        .y = norm->y,
        .mask = norm->mask,
    };
}

static const ff_cuda_place *place_of(const ff_compute *compute) {
    return &((const ff_cuda_compute *)compute)->place;
}

/* mean, inv_std and the running statistics, where what made x has not made them. */
static void statistics(ff_compute *compute, const ff_norm *norm, const ff_cuda_norm *arguments,
                       float *scratch) {
    const ff_cuda_place *place = place_of(compute);
    int result = 0;
    if (norm->sums)
        result =
            ff_cuda_norm_finish(place, arguments, norm->sums, norm->sums + arguments->channels);
    else if (!norm->counted)
        result = ff_cuda_norm_statistics(place, arguments, scratch);
    ff_cuda_keep(compute, result, "a batch norm's statistics");
}

void ff_cuda_norm_train(ff_compute *compute, const ff_norm *norm, float *scratch) {
    const ff_cuda_norm arguments = norm_of(compute, norm);
    statistics(compute, norm, &arguments, scratch);
    ff_cuda_keep(compute, ff_cuda_norm_apply(place_of(compute), &arguments, true), "a batch norm");
}

void ff_cuda_norm_evaluate(ff_compute *compute, const ff_norm *norm, float *scratch) {
    (void)scratch;
    const ff_cuda_norm arguments = norm_of(compute, norm);
    ff_cuda_keep(compute, ff_cuda_norm_apply(place_of(compute), &arguments, false), "a batch norm");
}

void ff_cuda_norm_back(ff_compute *compute, const ff_norm_backward *norm, float *scratch) {
    const ff_cuda_norm_backward arguments = {
        .forward = norm_of(compute, &norm->forward),
        .dy = norm->dy,
        .dy2 = norm->dy2,
        .dx = norm->dx,
        .dresidual = norm->dresidual,
        .dgamma = norm->dgamma,
        .dbeta = norm->dbeta,
    };
    ff_cuda_keep(compute, ff_cuda_norm_backward_run(place_of(compute), &arguments, scratch),
                 "a backward batch norm");
}

/* ---- norms that a convolution does (compute_conv.c) ---- */

void ff_cuda_fold_norm(ff_compute *compute, const ff_fold *fold, bool training, float *scratch) {
    const ff_cuda_norm arguments = norm_of(compute, &fold->norm);
    const ff_cuda_place *place = place_of(compute);
    if (training) statistics(compute, &fold->norm, &arguments, scratch);
    ff_cuda_keep(compute,
                 ff_cuda_norm_scale_shift(place, &arguments, training, fold->scale, fold->shift),
                 "a batch norm's scale");
}

void ff_cuda_fold_finish(ff_compute *compute, const ff_fold *fold, const void *g, void *dx) {
    const ff_tensor *shape = &fold->norm.shape;
    const int channels = ff_tensor_padded_channels(shape);
    ff_cuda_keep(compute,
                 ff_cuda_norm_backward_apply(place_of(compute), compute->dtype, ff_cuda_rows(shape),
                                             channels, g, fold->norm.x, fold->factors,
                                             fold->factors + channels, fold->factors + 2 * channels,
                                             dx),
                 "a backward batch norm");
}

/* ---- pools ---- */

static ff_cuda_pool pool_of(const ff_compute *compute, const ff_pool *pool) {
    return (ff_cuda_pool){
        .n = pool->input.n,
        .h = pool->input.h,
        .w = pool->input.w,
        .channels = ff_tensor_padded_channels(&pool->input),
        .out_h = pool->output.h,
        .out_w = pool->output.w,
        .kernel_h = pool->kernel_h,
        .kernel_w = pool->kernel_w,
        .stride = pool->stride,
        .pad = pool->pad,
        .dtype = compute->dtype,
        .max = pool->max,
    };
}

void ff_cuda_pool_train(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                        uint8_t *index) {
    const ff_cuda_pool arguments = pool_of(compute, pool);
    ff_cuda_keep(
        compute,
        ff_cuda_pool_forward(place_of(compute), &arguments, x, y, pool->max ? index : NULL),
        "a pool");
}

void ff_cuda_pool_norm(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                       uint8_t *index, const ff_norm *norm, float *scratch) {
    const ff_cuda_pool arguments = pool_of(compute, pool);
    const ff_cuda_norm statistics = norm_of(compute, norm);
    ff_cuda_keep(compute,
                 ff_cuda_pool_statistics(place_of(compute), &arguments, x, y,
                                         pool->max ? index : NULL, &statistics, scratch),
                 "a pool with statistics");
}

void ff_cuda_pool_back(ff_compute *compute, const ff_pool *pool, const void *dy,
                       const uint8_t *index, void *dx) {
    const ff_cuda_pool arguments = pool_of(compute, pool);
    ff_cuda_keep(
        compute,
        ff_cuda_pool_backward(place_of(compute), &arguments, dy, pool->max ? index : NULL, dx),
        "a backward pool");
}
