/* Matrix products of activations, weights and gradients, for the linear layers and the convolutions
 * that are one product (onednn_dense.h). */
#ifndef FF_TRAIN_CPU_ONEDNN_PRODUCT_H
#define FF_TRAIN_CPU_ONEDNN_PRODUCT_H

#ifdef FF_HAVE_DNNL
#include "train/compute/cpu/onednn.h"

/* c[m][n] = scale * a[m][k] b[k][n] + bias[n], in memory without gaps; a_turned: a is [k][m],
 * b_turned: b is [n][k]. a and b have the dtype of activations, and c too, if it is not `wide`:
 * f32. Sums and the bias are f32. */
typedef struct ff_product {
    dnnl_dim_t m, n, k;
    float scale;
    bool a_turned, b_turned, wide, biased;
} ff_product;

/* In f32 by dnnl_sgemm; in bf16 by a primitive, which stays for the next product of the same form.
 * bias: not NULL if `biased`. */
dnnl_status_t ff_product_run(ff_onednn *self, const ff_product *product, const void *a,
                             const void *b, const float *bias, void *c);
/* Releases the primitives. */
void ff_products_destroy(ff_onednn *self);

#endif
#endif
