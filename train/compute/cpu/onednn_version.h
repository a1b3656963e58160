/* The differences between oneDNN 2.x and 3.x, and nothing else: descriptors of memory (a struct in
 * 2, a handle in 3) and the creation of convolutions and matrix products (through operation
 * descriptors in 2). */
#ifndef FF_TRAIN_CPU_ONEDNN_VERSION_H
#define FF_TRAIN_CPU_ONEDNN_VERSION_H

#ifdef FF_HAVE_DNNL
#include <dnnl.h>

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t ff_dnnl_md;
#else
typedef dnnl_memory_desc_t *ff_dnnl_md;
#endif

/* Release each with ff_dnnl_md_destroy (NULL is accepted, *md = NULL). */
dnnl_status_t ff_dnnl_md_create(ff_dnnl_md *md, int rank, const dnnl_dims_t dims,
                                dnnl_data_type_t type, dnnl_format_tag_t tag);
/* Copies a memory descriptor that a primitive descriptor chose; `query` is for example
 * dnnl_query_weights_md. */
dnnl_status_t ff_dnnl_md_query(ff_dnnl_md *md, dnnl_primitive_desc_t pd, dnnl_query_t query);
dnnl_status_t ff_dnnl_md_copy(ff_dnnl_md *md, ff_dnnl_md from);
void ff_dnnl_md_destroy(ff_dnnl_md *md);

/* The order of the elements of a tensor in blocks: index i of dimension d is i / (the blocks of d)
 * strides of d, and the remainders' places in the blocks, which are adjacent in memory, the last
 * block the innermost. */
typedef struct ff_dnnl_order {
    int rank, blocks;
    dnnl_dims_t dims, strides, block, block_dimension;
} ff_dnnl_order;
/* dnnl_unimplemented if the elements have another kind of order. */
dnnl_status_t ff_dnnl_order_of(ff_dnnl_order *order, ff_dnnl_md md);

typedef enum ff_dnnl_pass {
    FF_DNNL_FORWARD,
    FF_DNNL_BACKWARD_DATA,
    FF_DNNL_BACKWARD_WEIGHTS,
    FF_DNNL_PASSES
} ff_dnnl_pass;

typedef struct ff_dnnl_conv_desc {
    ff_dnnl_pass pass;
    ff_dnnl_md source, weights, bias, destination; /* bias may be NULL */
    dnnl_dims_t strides, pad_before, pad_after;
    dnnl_primitive_desc_t hint; /* the forward descriptor; NULL for FORWARD */
    dnnl_primitive_attr_t attributes;
} ff_dnnl_conv_desc;

/* A direct convolution; dnnl_unimplemented if the library does not have it. */
dnnl_status_t ff_dnnl_conv_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                  const ff_dnnl_conv_desc *desc);

/* c = alpha * a b. */
dnnl_status_t ff_dnnl_product_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, ff_dnnl_md a,
                                     ff_dnnl_md b, ff_dnnl_md c, dnnl_primitive_attr_t attributes);
/* Appends a multiplication by alpha. */
dnnl_status_t ff_dnnl_append_scale(dnnl_post_ops_t operations, float alpha);

#endif
#endif
