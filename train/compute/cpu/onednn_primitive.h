/* Convolutions by oneDNN's convolution primitives, in the library's own orders of weights. */
#ifndef FF_TRAIN_CPU_ONEDNN_PRIMITIVE_H
#define FF_TRAIN_CPU_ONEDNN_PRIMITIVE_H

#ifdef FF_HAVE_DNNL
#include "train/compute/cpu/onednn.h"

extern const ff_onednn_way ff_primitive_way;

/* As conv_create (compute.h). */
ff_status ff_primitive_create(ff_onednn *self, const ff_conv_shape *shape, const ff_conv *sibling,
                              ff_conv **conv, ff_error *error);

#endif
#endif
