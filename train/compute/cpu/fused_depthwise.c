/* The gradient of a depthwise convolution's input over blocked activations: a plane of the input (a
 * block of channels of one sample) depends on one plane of the output alone. */
#include "train/compute/cpu/fused.h"
#include "train/compute/vector.h"

#include <omp.h>

#define F32_ALONE
#define KERNELS "train/compute/cpu/fused_depthwise_kernels.inc"
#include "train/compute/cpu/kernel_variants.inc"

typedef void (*kernel)(const ff_conv_shape *s, const float *dy, const float *w, float *dx);

static kernel kernel_for(int block) {
#if FF_HAS_TARGETS
    if (ff_has_vectors(block)) return block == 16 ? data_16_fast_f32 : data_8_fast_f32;
#endif
    return block == 16 ? data_16_baseline_f32 : data_8_baseline_f32;
}

bool ff_fused_depthwise_fits(const ff_conv_shape *s) {
    return s->groups > 1 && s->groups == s->input.c && s->groups == s->output.c &&
           s->input.block == s->output.block && (s->input.block == 8 || s->input.block == 16);
}

void ff_fused_depthwise_backward_data(ff_compute *compute, const ff_conv_shape *s, const float *dy,
                                      const float *w, float *dx) {
    const size_t block = (size_t)s->input.block, blocks = (size_t)ff_tensor_blocks(&s->input);
    const size_t x_plane = (size_t)s->input.h * s->input.w * block;
    const size_t y_plane = (size_t)s->output.h * s->output.w * block;
    const size_t filter = (size_t)s->kernel * s->kernel * block;
    const size_t planes = blocks * s->input.n;
    const kernel run = kernel_for(s->input.block);
#pragma omp parallel for num_threads(compute->threads) schedule(static)
    for (size_t plane = 0; plane < planes; plane++)
        run(s, dy + plane * y_plane, w + plane % blocks * filter, dx + plane * x_plane);
}
