/* The order in which oneDNN's convolutions hold their weights, and torch's.
 *
 * Thread rule: functions of their arguments. */
#ifndef FF_TRAIN_CPU_ONEDNN_ORDER_H
#define FF_TRAIN_CPU_ONEDNN_ORDER_H

#ifdef FF_HAVE_DNNL
#include "train/compute/cpu/onednn_version.h"

#include <stdbool.h>
#include <stddef.h>

/* Between torch's [out][in / groups][kernel][kernel] and held weights of [out][in][kernel][kernel]
 * or [groups][out / groups][in / groups][kernel][kernel], both f32. Importing writes zeros to the
 * padding: `count` held elements in all. */
void ff_order_import(const ff_dnnl_order *order, const float *oihw, float *held, size_t count);
void ff_order_export(const ff_dnnl_order *order, const float *held, float *oihw);

#endif
#endif
