/* Room train/compute/cuda, floor 11: the compute table on a GPU.
 *
 * compute.c and its neighbours turn each entry into launches: kernels/ has our own kernels,
 * library.h declares what NVIDIA's libraries do for us, cudnn/ implements library.h inside the CUDA
 * module. Many engines can compute a convolution: planner.c asks for one, and engine_choice.c takes
 * the cached one (engine_cache.c, plan_cache.c) or the fastest (timed_choice.c, engine_timer.c).
 * exports.c is what the module shows the trainer.
 *
 * May include format, loader/cuda, loader/device, loader/sequence, train/comm/collective,
 * train/compute.
 *
 * The compute table on a GPU: own kernels (kernels/kernels.h), the library's convolutions and
 * matrix products (library.h), memory and streams of a device table. Plain C without CUDA headers:
 * the module passes CUDA's own tables; tests pass the simulated kernels, the plain library and the
 * asynchronous host device.
 *
 * Tensors are NHWC in one block: channels padded to a multiple of 8, pad lanes zero in activations,
 * weights, gradients and state. compute_input.c chooses the padding of the images' channels.
 * Filters are held as [padded outputs][kernel][kernel][padded inputs of a group], the filters of
 * the depthwise kernels as [kernel][kernel][padded channels]. */
#ifndef FF_TRAIN_CUDA_COMPUTE_H
#define FF_TRAIN_CUDA_COMPUTE_H

#include "train/compute/compute.h"
#include "train/compute/cuda/kernels/kernels.h"
#include "train/compute/cuda/library.h"

/* Options for this table only. */
typedef struct ff_cuda_options {
    const ff_library_table *library;
    int multiprocessors; /* of the device; at least 1 */
    double bytes_per_ns; /* memory bandwidth, to compare passes; 0 = unknown */
    bool no_fold;        /* batch norms are never folded into convolutions */
    /* As in ff_library_options. With a description the compute only plans: its device is absent
     * (loader/device/absent.h), and no kernel is launched. */
    const char *device_json;
    void (*planned)(void *context, const ff_library_conv_spec *spec, const ff_library_conv *conv);
    void *planned_context;
    const char *cache_folder;
    bool compile_nothing; /* as in ff_library_options */
    /* 0: nothing is timed and no norm is folded; with a description, nothing is planned ahead for a
     * GPU that would time engines. Negative: FF_CUDA_TUNE_SECONDS for each expected pass, within
     * bounds. Compiling engines for timing may take FF_CUDA_COMPILE_TIMES this time in addition. */
    double timing_seconds;
    void (*note)(void *context, const char *line);
    void (*progress)(void *context, const ff_library_tuning *tuning);
    void *note_context;
    ff_library_tuning *tuning;
} ff_cuda_options;

#define FF_CUDA_TUNE_SECONDS  0.35
#define FF_CUDA_TUNE_LEAST    5.0
#define FF_CUDA_TUNE_MOST     60.0
#define FF_CUDA_COMPILE_TIMES 3.0

/* Needs options->device and options->cuda. */
extern const ff_compute_ops ff_cuda_compute_ops;

/* ---- shared by the files of this table ---- */

typedef struct ff_cuda_compute {
    ff_compute base;
    ff_cuda_queue queue;
    const ff_library_table *table;
    ff_library *library;
    void *gemm_workspace; /* of the library */
    bool planning;        /* without a device */
    bool timed;           /* the library may time its engines */
    bool ahead;           /* nothing is timed here; what a GPU will time is planned */
    bool tried;           /* what is being planned is not part of the plan, so it is not reported */
    void (*planned)(void *context, const ff_library_conv_spec *spec, const ff_library_conv *conv);
    void *planned_context;
    double bytes_per_ns; /* FF_CUDA_BYTES_PER_NS if unknown */
    /* The channel block of images with image_channels channels; 0: the block of activations. */
    int image_channels, image_block;
} ff_cuda_compute;

/* Records a launcher's error, if any: "norm_train: cudaErrorIllegalAddress (CUDA error 700)". */
void ff_cuda_keep(ff_compute *compute, int result, const char *entry);

static inline const ff_cuda_queue *ff_cuda_queue_of(const ff_compute *compute) {
    return &((const ff_cuda_compute *)compute)->queue;
}

/* compute_input.c */
int ff_cuda_channel_block(const ff_compute *compute, int channels);
int ff_cuda_input_block(const ff_compute *compute, int channels);
ff_status ff_cuda_choose_input_block(ff_compute *compute, const ff_conv_shape *shapes, int count,
                                     ff_error *error);

ff_status ff_cuda_conv_create(ff_compute *compute, const ff_conv_shape *shape,
                              const ff_conv *sibling, ff_conv **conv, ff_error *error);
void ff_cuda_conv_destroy(ff_compute *compute, ff_conv *conv);
/* Nanoseconds of a convolution's passes in a training step (without training: of the forward pass)
 * as timed by the library, plus the memory traffic of missing fused passes, and of the norm before
 * the convolution if it could be folded. 0: a pass was not timed. */
enum { FF_CUDA_BYTES_PER_NS = 1000 };
double ff_cuda_conv_ns(const ff_conv *conv);
void ff_cuda_conv_import(const ff_conv *conv, const float *oihw, float *held);
void ff_cuda_conv_export(const ff_conv *conv, const float *held, float *oihw);
void ff_cuda_conv_forward(ff_compute *compute, ff_conv *conv, const void *x, const void *w,
                          const void *bias, void *y, void *scratch);
void ff_cuda_conv_forward_fused(ff_compute *compute, ff_conv *conv, const void *x,
                                const ff_fold *fold, const void *w, void *y, float *sums,
                                void *scratch);
void ff_cuda_conv_backward_data(ff_compute *compute, ff_conv *conv, const void *dy, const void *w,
                                void *dx, void *scratch);
void ff_cuda_conv_backward_weights(ff_compute *compute, ff_conv *conv, const void *x,
                                   const void *dy, void *dw, float *dbias, void *scratch);

void ff_cuda_fold_norm(ff_compute *compute, const ff_fold *fold, bool training, float *scratch);
void ff_cuda_fold_backward(ff_compute *compute, ff_conv *conv, const ff_fold *fold, const void *w,
                           const void *dy, void *g, void *dw, void *scratch);
void ff_cuda_fold_finish(ff_compute *compute, const ff_fold *fold, const void *g, void *dx);

void ff_cuda_norm_train(ff_compute *compute, const ff_norm *norm, float *scratch);
void ff_cuda_norm_evaluate(ff_compute *compute, const ff_norm *norm, float *scratch);
void ff_cuda_norm_back(ff_compute *compute, const ff_norm_backward *norm, float *scratch);
void ff_cuda_pool_train(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                        uint8_t *index);
void ff_cuda_pool_norm(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                       uint8_t *index, const ff_norm *norm, float *scratch);
void ff_cuda_pool_back(ff_compute *compute, const ff_pool *pool, const void *dy,
                       const uint8_t *index, void *dx);

void ff_cuda_linear_forward(ff_compute *compute, const ff_linear *linear, const void *x,
                            const void *w, const float *bias, void *y);
void ff_cuda_linear_backward(ff_compute *compute, const ff_linear *linear, const void *x,
                             const void *w, const void *dy, void *dx, void *dw, float *dbias,
                             void *scratch);
size_t ff_cuda_linear_scratch(const ff_compute *compute, const ff_linear *linear);

#endif
