/* Shared by the files of the oneDNN table. */
#ifndef FF_TRAIN_CPU_ONEDNN_H
#define FF_TRAIN_CPU_ONEDNN_H

#ifdef FF_HAVE_DNNL
#include "train/compute/compute.h"

#include <dnnl.h>

typedef struct ff_onednn {
    ff_compute base;
    ff_compute_ops table; /* base.ops */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attributes;    /* user-managed scratchpad */
    int block;                           /* channels of a block: 16 with AVX-512, else 8 */
    bool winograd;                       /* winograd.h; in bf16 AMX is faster */
    dnnl_data_type_t type;               /* of activations, working weights and their gradients */
    struct ff_planned_product *products; /* onednn_product.h; [product_count] */
    size_t product_count, product_capacity;
} ff_onednn;

/* A way to compute convolutions: their passes as in compute.h, without the compute. */
typedef struct ff_onednn_way {
    void (*destroy)(ff_conv *conv);
    void (*import)(const ff_conv *conv, const float *oihw, float *held);
    void (*export)(const ff_conv *conv, const float *held, float *oihw);
    dnnl_status_t (*forward)(ff_conv *conv, const void *x, const void *w, const void *bias, void *y,
                             void *scratch);
    dnnl_status_t (*backward_data)(ff_conv *conv, const void *dy, const void *w, void *dx,
                                   void *scratch);
    /* dw is not NULL; dbias may be. */
    dnnl_status_t (*backward_weights)(ff_conv *conv, const void *x, const void *dy, void *dw,
                                      float *dbias, void *scratch);
} ff_onednn_way;

/* Every convolution of this table begins with it. */
typedef struct ff_onednn_conv {
    ff_conv base;
    ff_onednn *self;
    const ff_onednn_way *way;
} ff_onednn_conv;

/* FF_NO_MEMORY or FF_FAILED, naming the convolution; what: "plan", "run". */
ff_status ff_onednn_conv_failed(ff_error *error, const ff_conv_shape *shape, dnnl_status_t status,
                                const char *what);

ff_status ff_onednn_conv_create(ff_compute *compute, const ff_conv_shape *shape,
                                const ff_conv *sibling, ff_conv **conv, ff_error *error);
void ff_onednn_conv_destroy(ff_compute *compute, ff_conv *conv);
void ff_onednn_conv_import(const ff_conv *conv, const float *oihw, float *held);
void ff_onednn_conv_export(const ff_conv *conv, const float *held, float *oihw);
void ff_onednn_conv_forward(ff_compute *compute, ff_conv *conv, const void *x, const void *w,
                            const void *bias, void *y, void *scratch);
void ff_onednn_conv_backward_data(ff_compute *compute, ff_conv *conv, const void *dy, const void *w,
                                  void *dx, void *scratch);
void ff_onednn_conv_backward_weights(ff_compute *compute, ff_conv *conv, const void *x,
                                     const void *dy, void *dw, float *dbias, void *scratch);
void ff_onednn_conv_forward_fused(ff_compute *compute, ff_conv *conv, const void *x,
                                  const ff_fold *fold, const void *w, void *y, float *sums,
                                  void *scratch);
void ff_onednn_conv_fold_backward(ff_compute *compute, ff_conv *conv, const ff_fold *fold,
                                  const void *w, const void *dy, void *g, void *dw, void *scratch);

#endif
#endif
