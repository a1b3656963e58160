/* Convolutions over images of a few pixels, as one matrix product.
 *
 * On 2x2 pixels a 3x3 window is mostly padding; on 1x1 eight of nine taps never reach a pixel.
 * There a convolution is a linear map from all values of a sample to all values of the output, with
 * the matrix
 *   T[(i, q), (o, p)] = w[o, i, q - p * stride + pad]   (pixels p of the output, q of the input)
 * in the layout of the activations. The forward pass builds T from the weights, and the gradient of
 * the input reads the same T, if it was kept (ff_conv.kept); taps that reach no pixel are neither
 * read nor written. */
#ifndef FF_TRAIN_CPU_ONEDNN_DENSE_H
#define FF_TRAIN_CPU_ONEDNN_DENSE_H

#ifdef FF_HAVE_DNNL
#include "train/compute/cpu/onednn.h"

/* Whether a convolution is faster here: few pixels, a window larger than 1x1, blocked activations.
 * The answer does not depend on the batch, so siblings for the same image size agree. */
bool ff_dense_fits(const ff_onednn *self, const ff_conv_shape *shape);

/* Weights are held as [out block][in block][kernel][kernel][in lane][out lane], oneDNN's
 * OIhw16i16o. */
extern const ff_onednn_way ff_dense_way;
ff_status ff_dense_create(ff_onednn *self, const ff_conv_shape *shape, ff_conv **conv,
                          ff_error *error);
/* Between this order and [out][in][kernel][kernel]. */
void ff_dense_import(const ff_conv *conv, const float *oihw, float *held);
void ff_dense_export(const ff_conv *conv, const float *held, float *oihw);
/* The gradient of the bias of any convolution with the blocked output t: the sum of dy over samples
 * and pixels. */
void ff_dense_sum_pixels(const ff_compute *compute, const ff_tensor *t, const void *dy,
                         float *dbias);

#endif
#endif
