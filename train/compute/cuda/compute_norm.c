/* Batch norms and pools: their entries launch own kernels. */
#include "train/compute/cuda/compute.h"

/* Sends the numbers of a rank without samples. */
static void tell_nothing(ff_compute *compute, const ff_norm *norm) {
    (void)!compute->device->table->fill(compute->device, compute->stream, norm->ranks.own, 0,
                                        ff_norm_told(norm) * sizeof *norm->ranks.own,
                                        ff_compute_error(compute));
}

/* mean, inv_std and the running statistics, unless the operation that made x has computed them. */
static void statistics(ff_compute *compute, const ff_norm *norm, float *scratch) {
    const ff_cuda_queue *queue = ff_cuda_queue_of(compute);
    int result = 0;
    if (!norm->shape.n)
        tell_nothing(compute, norm);
    else if (norm->sums || norm->held)
        result = ff_cuda_norm_finish(queue, norm);
    else if (!norm->counted)
        result = ff_cuda_norm_statistics(queue, norm, scratch);
    if (norm->ranks.count) {
        ff_compute_gather(compute, norm);
        result = result ? result : ff_cuda_norm_join(queue, norm);
    }
    ff_cuda_keep(compute, result, "a batch norm's statistics");
}

void ff_cuda_norm_train(ff_compute *compute, const ff_norm *norm, float *scratch) {
    statistics(compute, norm, scratch);
    if (!norm->shape.n || !norm->y) return;
    ff_cuda_keep(compute, ff_cuda_norm_apply(ff_cuda_queue_of(compute), norm, true),
                 "a batch norm");
}

void ff_cuda_norm_evaluate(ff_compute *compute, const ff_norm *norm, float *scratch) {
    (void)scratch;
    if (!norm->y) return;
    ff_cuda_keep(compute, ff_cuda_norm_apply(ff_cuda_queue_of(compute), norm, false),
                 "a batch norm");
}

void ff_cuda_norm_back(ff_compute *compute, const ff_norm_backward *norm, float *scratch) {
    const ff_cuda_queue *queue = ff_cuda_queue_of(compute);
    const ff_norm *forward = &norm->forward;
    int result = 0;
    if (forward->shape.n)
        result = ff_cuda_norm_backward_run(queue, norm, scratch, false);
    else
        tell_nothing(compute, forward);
    if (forward->ranks.count) {
        ff_compute_gather(compute, forward);
        if (!result && forward->shape.n)
            result = ff_cuda_norm_backward_run(queue, norm, scratch, true);
    }
    ff_cuda_keep(compute, result, "a backward batch norm");
}

/* ---- norms folded into a convolution (compute_conv.c) ---- */

void ff_cuda_fold_norm(ff_compute *compute, const ff_fold *fold, bool training, float *scratch) {
    if (training) statistics(compute, &fold->norm, scratch);
    ff_cuda_keep(compute,
                 ff_cuda_norm_scale_shift(ff_cuda_queue_of(compute), &fold->norm, training,
                                          fold->scale, fold->shift),
                 "a batch norm's scale");
}

void ff_cuda_fold_finish(ff_compute *compute, const ff_fold *fold, const void *g, void *dx) {
    ff_cuda_keep(compute,
                 ff_cuda_norm_backward_apply(ff_cuda_queue_of(compute), &fold->norm.shape, g,
                                             fold->norm.x, fold->factors, dx),
                 "a backward batch norm");
}

/* ---- pools ---- */

void ff_cuda_pool_train(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                        uint8_t *index) {
    ff_cuda_keep(
        compute,
        ff_cuda_pool_forward(ff_cuda_queue_of(compute), pool, x, y, pool->max ? index : NULL),
        "a pool");
}

void ff_cuda_pool_norm(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                       uint8_t *index, const ff_norm *norm, float *scratch) {
    ff_cuda_keep(compute,
                 ff_cuda_pool_statistics(ff_cuda_queue_of(compute), pool, x, y,
                                         pool->max ? index : NULL, norm, scratch),
                 "a pool with statistics");
}

void ff_cuda_pool_back(ff_compute *compute, const ff_pool *pool, const void *dy,
                       const uint8_t *index, void *dx) {
    ff_cuda_keep(
        compute,
        ff_cuda_pool_backward(ff_cuda_queue_of(compute), pool, dy, pool->max ? index : NULL, dx),
        "a backward pool");
}
