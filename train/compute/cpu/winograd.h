/* 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3) (Lavin & Gray 2015, arXiv 1509.09308), for
 * processors with AVX2 or AVX-512. A tile of 4x4 outputs takes 36 products for each pair of
 * channels instead of 144:
 *   y = A' [(G w G') . (B' x B)] A, summed over the channels of the input; x: 6x6 pixels around y's
 *   dx: the same of dy, with w turned by half a turn, summed over the channels of the output
 *   dw = G' [(B' x B) . (A dy A')] G, summed over all tiles
 * where . multiplies value by value: with the channels, 36 products of matrices. All of this is
 * computed in f32. In bf16 only x, w, dy and the results are rounded: bf16 has too few digits for
 * what is between them.
 *
 * Activations are in blocks of 8 or 16 channels (`lanes`), weights are held as
 * [out block][in block][3][3][lanes in][lanes out]. Results have the same bits with any number of
 * threads. */
#ifndef FF_TRAIN_CPU_WINOGRAD_H
#define FF_TRAIN_CPU_WINOGRAD_H

#include "train/compute/compute.h"

/* Whether a convolution can be computed here, and is faster than a direct one, on this processor.
 * The answer is the same for every batch size. */
bool ff_winograd_fits(const ff_compute *compute, const ff_conv_shape *shape);

/* Floats of the scratch of every pass. */
size_t ff_winograd_scratch(const ff_compute *compute, const ff_conv_shape *shape);

/* As the entries of the table; bias may be NULL. */
void ff_winograd_forward(const ff_compute *compute, const ff_conv_shape *shape, const void *x,
                         const void *w, const void *bias, void *y, float *scratch);
void ff_winograd_backward_data(const ff_compute *compute, const ff_conv_shape *shape,
                               const void *dy, const void *w, void *dx, float *scratch);
/* Without the gradient of the bias. */
void ff_winograd_backward_weights(const ff_compute *compute, const ff_conv_shape *shape,
                                  const void *x, const void *dy, void *dw, float *scratch);

#endif
