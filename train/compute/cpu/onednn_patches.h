/* The gradient of a convolution's weights, over outputs of few pixels, as one matrix product.
 *
 * oneDNN's direct kernel runs along the rows of the output; with rows of two pixels it reaches less
 * than a third of the processor's rate. Here the pixels under the window become rows of a matrix,
 *   P[(n, p), (i, tap)] = x[n, i, p * stride - pad + tap]   (pixels p of the output; 0 outside)
 * so that dw[(i, tap), o] = sum over (n, p) of P[(n, p), (i, tap)] * dy[n, o, p]. */
#ifndef FF_TRAIN_CPU_ONEDNN_PATCHES_H
#define FF_TRAIN_CPU_ONEDNN_PATCHES_H

#ifdef FF_HAVE_DNNL
#include "train/compute/cpu/onednn.h"

/* Whether the gradient is faster here: blocked activations, one group, an output of up to 4
 * pixels. */
bool ff_patches_fit(const ff_onednn *self, const ff_conv_shape *shape);
size_t ff_patches_scratch_bytes(const ff_conv_shape *shape);
/* Writes dw, held as [out block][in block][kernel][kernel][in lane][out lane] (OIhw16i16o). */
dnnl_status_t ff_patches_backward_weights(const ff_conv *conv, const float *x, const float *dy,
                                          float *dw, float *scratch);

#endif
#endif
