/* Entries of the reference table in separate files; compute.h documents them. */
#ifndef FF_TRAIN_CPU_REFERENCE_H
#define FF_TRAIN_CPU_REFERENCE_H

#include "train/compute/compute.h"

ff_status ff_reference_conv_create(ff_compute *compute, const ff_conv_shape *shape,
                                   const ff_conv *sibling, ff_conv **conv, ff_error *error);
void ff_reference_conv_destroy(ff_compute *compute, ff_conv *conv);
void ff_reference_conv_import(const ff_conv *conv, const float *oihw, float *held);
void ff_reference_conv_export(const ff_conv *conv, const float *held, float *oihw);
size_t ff_reference_loss_scratch(const ff_compute *compute, int n, int stride);
void ff_reference_loss(ff_compute *compute, const ff_loss *loss);

/* One for each dtype of activations. */
#define LOOPS "train/compute/cpu/reference_entries.inc"
#include "train/compute/cpu/element_variants.inc"

#endif
