/* Muon over the filters of one convolution, whatever order a table holds them in: the entries
 * `muon_scratch` and `muon` of compute.h but for the product, which each table brings. */
#ifndef FF_TRAIN_CPU_MUON_H
#define FF_TRAIN_CPU_MUON_H

#include "train/compute.h"

size_t ff_cpu_muon_scratch(const ff_compute *compute, const ff_conv *conv);
void ff_cpu_muon(ff_compute *compute, const ff_conv *conv, const ff_muon *muon, float *value,
                 float *momentum, const float *gradient, void *scratch, ff_matrix_product product);

#endif
