/* 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3) (Lavin & Gray 2015, arXiv 1509.09308), in
 * f32, for processors with AVX2 and without AVX-512, for which oneDNN has no Winograd. A tile of
 * 4x4 outputs takes 36 products for each pair of channels instead of 144:
 *   y = A' [(G w G') . (B' x B)] A, summed over the channels of the input; x: 6x6 pixels around y's
 *   dx: the same of dy, with w turned by half a turn, summed over the channels of the output
 *   dw = G' [(B' x B) . (A dy A')] G, summed over all tiles
 * where . multiplies value by value: with the channels, 36 products of matrices. */
#ifndef FF_TRAIN_CPU_ONEDNN_WINOGRAD_H
#define FF_TRAIN_CPU_ONEDNN_WINOGRAD_H

#ifdef FF_HAVE_DNNL
#include "train/compute/cpu/onednn.h"

/* Whether a convolution is faster here than by the library's direct convolution, for this processor
 * and this batch. */
bool ff_winograd_fits(const ff_onednn *self, const ff_conv_shape *shape);

/* Weights are held as ff_dense_way holds them. Results have the same bits with any number of
 * threads. */
extern const ff_onednn_way ff_winograd_way;
ff_status ff_winograd_create(ff_onednn *self, const ff_conv_shape *shape, ff_conv **conv,
                             ff_error *error);

#endif
#endif
