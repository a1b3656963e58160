/* The table: opening, layouts, elementwise passes, dropout and the loss. */
#include "train/compute/cuda/compute.h"

#include "train/compute/cuda/compute_update.h"

#include "format/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Passes planned for a convolution: forward with and without statistics, forward for another batch
 * in evaluation, and two backward; a folded norm adds three. For images, forward and backward
 * weights are planned with two more channel blocks. */
enum { PASSES = 5, FOLDED_PASSES = 3, IMAGE_PASSES = 6 };

void ff_cuda_keep(ff_compute *compute, int result, const char *entry) {
    if (!result) return;
    const ff_device_table *table = compute->device->table;
    const char *name = table->error_name ? table->error_name(result) : NULL;
    ff_fail(ff_compute_error(compute), FF_FAILED, "%s: %s (CUDA error %d)%s", entry,
            name ? name : "unknown", result,
            table->error_advice ? table->error_advice(result) : "");
}

static void close_cuda(ff_compute *compute) {
    ff_cuda_compute *self = (ff_cuda_compute *)compute;
    if (ff_compute_wait(compute, NULL) != FF_OK) {
        /* the failure was reported before; nothing is running any more */
    }
    if (self->gemm_workspace) ff_compute_release(compute, self->gemm_workspace);
    ff_library_close(&self->library);
    ff_compute_end(compute);
    free(self);
}

static int expected_passes(const ff_cuda_options *cuda, const ff_compute_options *options) {
    if (options->convolutions <= 0) return 0;
    return PASSES * options->convolutions + IMAGE_PASSES +
           (cuda->no_fold ? 0 : FOLDED_PASSES * options->foldable);
}

static double tune_seconds(const ff_cuda_options *cuda, const ff_compute_options *options) {
    if (options->deterministic || cuda->device_json) return 0;
    if (cuda->timing_seconds >= 0) return cuda->timing_seconds;
    const double wanted = FF_CUDA_TUNE_SECONDS * expected_passes(cuda, options);
    return fmin(fmax(wanted, FF_CUDA_TUNE_LEAST), FF_CUDA_TUNE_MOST);
}

/* Passes the library's report of a convolution to the caller, if the convolution is part of the
 * plan. */
static void tell(void *context, const ff_library_conv_spec *spec, const ff_library_conv *conv) {
    const ff_cuda_compute *self = context;
    if (!self->tried) self->planned(self->planned_context, spec, conv);
}

static ff_status begin(ff_cuda_compute *self, const ff_compute_options *options, ff_error *error) {
    const ff_cuda_options *cuda = options->cuda;
    ff_compute *base = &self->base;
    const double seconds = tune_seconds(cuda, options);
    self->ahead = cuda->device_json && cuda->cache_folder && cuda->timing_seconds != 0 &&
                  !options->deterministic;
    const ff_library_options library = {
        .device = cuda->device_json ? NULL : options->device,
        .device_json = cuda->device_json,
        .planned = cuda->planned ? tell : NULL,
        .planned_context = self,
        .deterministic = options->deterministic,
        .timing_seconds = seconds,
        .compile_seconds = FF_CUDA_COMPILE_TIMES * seconds,
        .expected_convs = expected_passes(cuda, options),
        .compile_ahead = self->ahead,
        .compile_nothing = cuda->compile_nothing,
        .cache_folder = cuda->cache_folder,
        .note = cuda->note,
        .progress = cuda->progress,
        .note_context = cuda->note_context,
        .tuning = cuda->tuning,
    };
    base->fusions = FF_FUSE_POOL_STATISTICS | FF_FUSE_BIAS_ACTIVATION | FF_FUSE_NORM_ADD;
    /* cuDNN's convolutions with statistics add up in an order that varies between runs (H100, cuDNN
     * 9.14: losses differ from the first step on), and cuDNN's engine notes do not mention it. */
    if (!options->deterministic) base->fusions |= FF_FUSE_CONV_STATISTICS;
    if (!cuda->no_fold) base->fusions |= FF_FUSE_NORM_CONV;
    self->queue.stream = base->device->table->native_stream(base->device, base->stream);
    self->queue.multiprocessors = cuda->multiprocessors;
    self->queue.dtype = base->dtype;
    self->bytes_per_ns = cuda->bytes_per_ns > 0 ? cuda->bytes_per_ns : FF_CUDA_BYTES_PER_NS;
    self->table = cuda->library;
    self->planning = cuda->device_json;
    self->timed = seconds > 0;
    self->planned = cuda->planned;
    self->planned_context = cuda->planned_context;
    FF_TRY(base->device->table->make_current(base->device, error));
    FF_TRY(self->table->open(&self->library, &library, error));
    snprintf(base->description, sizeof base->description, "%s, %s, %s", base->ops->name,
             self->table->name, ff_precision_name(base->precision));
    return ff_compute_allocate(base, &self->gemm_workspace,
                               self->table->gemm_workspace(self->library),
                               "the workspace of matrix products", error);
}

static ff_status open_cuda(ff_compute **out, const ff_compute_options *options, ff_error *error) {
    ff_cuda_compute *self;
    *out = NULL;
    assert(options->device && options->cuda);
    FF_TRY(ff_alloc(&self, 1, sizeof *self, "the compute table", error));
    ff_status status = ff_compute_begin(&self->base, &ff_cuda_compute_ops, options, error);
    if (status != FF_OK) {
        free(self);
        return status;
    }
    status = begin(self, options, error);
    if (status != FF_OK)
        close_cuda(&self->base);
    else
        *out = &self->base;
    return status;
}

static void settle(ff_compute *compute) {
    ff_cuda_compute *self = (ff_cuda_compute *)compute;
    if (self->table->settle) self->table->settle(self->library);
}

static size_t norm_mask(const ff_compute *compute, const ff_tensor *shape) {
    return ff_cuda_norm_mask(compute->dtype, shape);
}

static size_t norm_scratch(const ff_compute *compute, const ff_tensor *shape) {
    const ff_cuda_compute *self = (const ff_cuda_compute *)compute;
    size_t bytes = ff_cuda_scratch(self->queue.multiprocessors, ff_tensor_padded_channels(shape));
    return (bytes + sizeof(float) - 1) / sizeof(float);
}

/* ---- elementwise ---- */

static void activation_forward(ff_compute *compute, ff_activation activation, size_t count,
                               const void *x, void *y) {
    ff_cuda_keep(compute,
                 ff_cuda_activation_forward(ff_cuda_queue_of(compute), activation, compute->dtype,
                                            count, x, y),
                 "an activation");
}

static void activation_backward(ff_compute *compute, ff_activation activation, size_t count,
                                const void *seen, const void *dy, void *dx) {
    ff_cuda_keep(compute,
                 ff_cuda_activation_backward(ff_cuda_queue_of(compute), activation, compute->dtype,
                                             count, seen, dy, dx),
                 "a backward activation");
}

static void activation_bias_backward(ff_compute *compute, ff_activation activation,
                                     const ff_tensor *shape, const void *seen, const void *dy,
                                     void *dx, float *dbias, float *scratch) {
    ff_cuda_keep(compute,
                 ff_cuda_activation_bias_gradient(ff_cuda_queue_of(compute), activation, shape,
                                                  seen, dy, dx, dbias, scratch),
                 "a backward activation with its bias");
}

static void add(ff_compute *compute, size_t count, const void *a, const void *b, void *to) {
    ff_cuda_keep(compute, ff_cuda_add(ff_cuda_queue_of(compute), compute->dtype, count, a, b, to),
                 "an addition");
}

static void cast(ff_compute *compute, size_t count, float scale, const void *from,
                 ff_dtype from_dtype, void *to, ff_dtype to_dtype) {
    if (((const ff_cuda_compute *)compute)->planning) return; /* a model's first parameters */
    ff_cuda_keep(
        compute,
        ff_cuda_cast(ff_cuda_queue_of(compute), count, scale, from, from_dtype, to, to_dtype),
        "a conversion");
}

static void dropout(ff_compute *compute, const ff_dropout *dropout, const void *x, void *y) {
    ff_cuda_keep(compute, ff_cuda_dropout(ff_cuda_queue_of(compute), dropout, x, y), "dropout");
}

/* ---- loss ---- */

static size_t loss_scratch(const ff_compute *compute, int n, int stride) {
    (void)compute;
    (void)stride;
    return ff_cuda_loss_scratch(n);
}

static void loss(ff_compute *compute, const ff_loss *loss) {
    ff_cuda_keep(compute, ff_cuda_loss(ff_cuda_queue_of(compute), loss), "the loss");
}

/* ---- test-time views ---- */

static void view(ff_compute *compute, const ff_image_view *view, const void *x, void *y) {
    ff_cuda_keep(compute, ff_cuda_view(ff_cuda_queue_of(compute), view, x, y), "a view");
}

static void weigh(ff_compute *compute, size_t count, float weight, bool first, const float *x,
                  float *to) {
    ff_cuda_keep(compute,
                 ff_cuda_weigh(ff_cuda_queue_of(compute), FF_F32, count, weight, first, x, to),
                 "the mean of views");
}

const ff_compute_ops ff_cuda_compute_ops = {
    .name = "cuda",
    .open = open_cuda,
    .close = close_cuda,
    .channel_block = ff_cuda_channel_block,
    .input_block = ff_cuda_input_block,
    .row_block = ff_cuda_channel_block,
    .choose_input_block = ff_cuda_choose_input_block,
    .conv_create = ff_cuda_conv_create,
    .conv_destroy = ff_cuda_conv_destroy,
    .settle = settle,
    .conv_import = ff_cuda_conv_import,
    .conv_export = ff_cuda_conv_export,
    .conv_forward = ff_cuda_conv_forward,
    .conv_forward_fused = ff_cuda_conv_forward_fused,
    .conv_backward_data = ff_cuda_conv_backward_data,
    .conv_backward_weights = ff_cuda_conv_backward_weights,
    .fold_norm = ff_cuda_fold_norm,
    .fold_backward = ff_cuda_fold_backward,
    .fold_finish = ff_cuda_fold_finish,
    .norm_scratch = norm_scratch,
    .norm_mask = norm_mask,
    .norm_train = ff_cuda_norm_train,
    .norm_evaluate = ff_cuda_norm_evaluate,
    .norm_backward = ff_cuda_norm_back,
    .pool_forward = ff_cuda_pool_train,
    .pool_norm = ff_cuda_pool_norm,
    .pool_backward = ff_cuda_pool_back,
    .linear_scratch = ff_cuda_linear_scratch,
    .linear_forward = ff_cuda_linear_forward,
    .linear_backward = ff_cuda_linear_backward,
    .activation_forward = activation_forward,
    .activation_backward = activation_backward,
    .activation_bias_backward = activation_bias_backward,
    .add = add,
    .dropout = dropout,
    .loss_scratch = loss_scratch,
    .loss = loss,
    .view = view,
    .weigh = weigh,
    .cast = cast,
    .update_create = ff_cuda_update_create,
    .update_destroy = ff_cuda_update_destroy,
    .update_run = ff_cuda_update_enqueue,
    .sum_gradients = ff_cuda_update_sum,
    .outcome_add = ff_cuda_update_count,
    .outcome_join = ff_cuda_update_join,
};
