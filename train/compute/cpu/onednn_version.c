#include "train/compute/cpu/onednn_version.h"

#ifdef FF_HAVE_DNNL

#include <stdlib.h>
#include <string.h>

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t ff_dnnl_md_create(ff_dnnl_md *md, int rank, const dnnl_dims_t dims,
                                dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_create_with_tag(md, rank, dims, type, tag);
}

dnnl_status_t ff_dnnl_md_query(ff_dnnl_md *md, dnnl_primitive_desc_t pd, dnnl_query_t query) {
    return dnnl_memory_desc_clone(md, dnnl_primitive_desc_query_md(pd, query, 0));
}

dnnl_status_t ff_dnnl_md_copy(ff_dnnl_md *md, ff_dnnl_md from) {
    return dnnl_memory_desc_clone(md, from);
}

void ff_dnnl_md_destroy(ff_dnnl_md *md) {
    if (*md) dnnl_memory_desc_destroy(*md);
    *md = NULL;
}

dnnl_status_t ff_dnnl_order_of(ff_dnnl_order *order, ff_dnnl_md md) {
    dnnl_format_kind_t kind;
    const dnnl_dims_t *dims, *strides, *block, *block_dimension;
    if (dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind) != dnnl_success ||
        kind != dnnl_blocked ||
        dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &order->rank) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &order->blocks) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_dims, &dims) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_strides, &strides) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_inner_blks, &block) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &block_dimension) != dnnl_success)
        return dnnl_unimplemented;
    memcpy(order->dims, *dims, sizeof *dims);
    memcpy(order->strides, *strides, sizeof *strides);
    memcpy(order->block, *block, sizeof *block);
    memcpy(order->block_dimension, *block_dimension, sizeof *block_dimension);
    return dnnl_success;
}

dnnl_status_t ff_dnnl_product_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, ff_dnnl_md a,
                                     ff_dnnl_md b, ff_dnnl_md c, dnnl_primitive_attr_t attributes) {
    return dnnl_matmul_primitive_desc_create(pd, engine, a, b, NULL, c, attributes);
}

dnnl_status_t ff_dnnl_append_scale(dnnl_post_ops_t operations, float alpha) {
    return dnnl_post_ops_append_eltwise(operations, dnnl_eltwise_linear, alpha, 0);
}

dnnl_status_t ff_dnnl_conv_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                  const ff_dnnl_conv_desc *d) {
    const dnnl_dims_t dilates = {0};
    switch (d->pass) {
    case FF_DNNL_FORWARD:
        return dnnl_convolution_forward_primitive_desc_create(
            pd, engine, dnnl_forward_training, dnnl_convolution_direct, d->source, d->weights,
            d->bias, d->destination, d->strides, dilates, d->pad_before, d->pad_after,
            d->attributes);
    case FF_DNNL_BACKWARD_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            pd, engine, dnnl_convolution_direct, d->source, d->weights, d->destination, d->strides,
            dilates, d->pad_before, d->pad_after, d->hint, d->attributes);
    default:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            pd, engine, dnnl_convolution_direct, d->source, d->weights, d->bias, d->destination,
            d->strides, dilates, d->pad_before, d->pad_after, d->hint, d->attributes);
    }
}

#else

dnnl_status_t ff_dnnl_md_copy(ff_dnnl_md *md, ff_dnnl_md from) {
    *md = malloc(sizeof **md);
    if (!*md) return dnnl_out_of_memory;
    memcpy(*md, from, sizeof **md);
    return dnnl_success;
}

dnnl_status_t ff_dnnl_md_create(ff_dnnl_md *md, int rank, const dnnl_dims_t dims,
                                dnnl_data_type_t type, dnnl_format_tag_t tag) {
    dnnl_memory_desc_t desc;
    *md = NULL;
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(&desc, rank, dims, type, tag);
    return status == dnnl_success ? ff_dnnl_md_copy(md, &desc) : status;
}

dnnl_status_t ff_dnnl_md_query(ff_dnnl_md *md, dnnl_primitive_desc_t pd, dnnl_query_t query) {
    const dnnl_memory_desc_t *desc = dnnl_primitive_desc_query_md(pd, query, 0);
    *md = malloc(sizeof **md);
    if (!*md) return dnnl_out_of_memory;
    memcpy(*md, desc, sizeof **md);
    return dnnl_success;
}

void ff_dnnl_md_destroy(ff_dnnl_md *md) {
    free(*md);
    *md = NULL;
}

dnnl_status_t ff_dnnl_order_of(ff_dnnl_order *order, ff_dnnl_md md) {
    const dnnl_blocking_desc_t *blocking = &md->format_desc.blocking;
    if (md->format_kind != dnnl_blocked) return dnnl_unimplemented;
    *order = (ff_dnnl_order){.rank = md->ndims, .blocks = blocking->inner_nblks};
    memcpy(order->dims, md->dims, sizeof order->dims);
    memcpy(order->strides, blocking->strides, sizeof order->strides);
    memcpy(order->block, blocking->inner_blks, sizeof order->block);
    memcpy(order->block_dimension, blocking->inner_idxs, sizeof order->block_dimension);
    return dnnl_success;
}

dnnl_status_t ff_dnnl_product_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, ff_dnnl_md a,
                                     ff_dnnl_md b, ff_dnnl_md c, dnnl_primitive_attr_t attributes) {
    dnnl_matmul_desc_t desc;
    const dnnl_status_t status = dnnl_matmul_desc_init(&desc, a, b, NULL, c);
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(pd, &desc, attributes, engine, NULL);
}

dnnl_status_t ff_dnnl_append_scale(dnnl_post_ops_t operations, float alpha) {
    return dnnl_post_ops_append_eltwise(operations, 1, dnnl_eltwise_linear, alpha, 0);
}

dnnl_status_t ff_dnnl_conv_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                  const ff_dnnl_conv_desc *d) {
    dnnl_convolution_desc_t desc;
    dnnl_status_t status;
    switch (d->pass) {
    case FF_DNNL_FORWARD:
        status = dnnl_convolution_forward_desc_init(
            &desc, dnnl_forward_training, dnnl_convolution_direct, d->source, d->weights, d->bias,
            d->destination, d->strides, d->pad_before, d->pad_after);
        break;
    case FF_DNNL_BACKWARD_DATA:
        status = dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, d->source,
                                                          d->weights, d->destination, d->strides,
                                                          d->pad_before, d->pad_after);
        break;
    default:
        status = dnnl_convolution_backward_weights_desc_init(
            &desc, dnnl_convolution_direct, d->source, d->weights, d->bias, d->destination,
            d->strides, d->pad_before, d->pad_after);
    }
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(pd, &desc, d->attributes, engine, d->hint);
}

#endif
#endif
