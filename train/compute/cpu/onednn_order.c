#include "train/compute/cpu/onednn_order.h"

#ifdef FF_HAVE_DNNL

#include <string.h>

/* The place of an index of a dimension; an element is at the sum of its indices' places. */
static size_t place(const ff_dnnl_order *order, int dimension, dnnl_dim_t index) {
    size_t at = 0, inner = 1;
    for (int b = order->blocks; b-- > 0; inner *= (size_t)order->block[b]) {
        if (order->block_dimension[b] != dimension) continue;
        at += (size_t)(index % order->block[b]) * inner;
        index /= order->block[b];
    }
    return at + (size_t)(index * order->strides[dimension]);
}

static void convert(const ff_dnnl_order *order, float *held, float *torch_order, bool import) {
    const int last = order->rank - 1, grouped = order->rank > 4;
    const dnnl_dim_t *dims = order->dims, *d = dims + grouped;
    const dnnl_dim_t filters = (grouped ? dims[0] : 1) * d[0] * d[1], taps = d[2] * d[3];
    for (dnnl_dim_t f = 0; f < filters; f++) {
        size_t filter = place(order, last - 2, f % d[1]) + place(order, last - 3, f / d[1] % d[0]);
        if (grouped) filter += place(order, 0, f / d[1] / d[0]);
        for (dnnl_dim_t tap = 0; tap < taps; tap++, torch_order++) {
            float *at =
                held + filter + place(order, last - 1, tap / d[3]) + place(order, last, tap % d[3]);
            if (import)
                *at = *torch_order;
            else
                *torch_order = *at;
        }
    }
}

void ff_order_import(const ff_dnnl_order *order, const float *oihw, float *held, size_t count) {
    memset(held, 0, count * sizeof *held);
    convert(order, held, (float *)oihw, true);
}

void ff_order_export(const ff_dnnl_order *order, const float *held, float *oihw) {
    convert(order, (float *)held, oihw, false);
}

#endif
