#include "train/compute/cpu/onednn_product.h"

#ifdef FF_HAVE_DNNL

#include "format/base/memory.h"
#include "train/compute/cpu/onednn_version.h"

#include <stdlib.h>
#include <string.h>

/* A product that is planned, and its memories, which point to the caller's arrays during a call. */
struct ff_planned_product {
    ff_product form;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, bias, c;
};

enum { BIAS = DNNL_ARG_SRC_1 }; /* of the post-operation that adds it */

static bool same(const ff_product *a, const ff_product *b) {
    return a->m == b->m && a->n == b->n && a->k == b->k && a->scale == b->scale &&
           a->a_turned == b->a_turned && a->b_turned == b->b_turned && a->wide == b->wide &&
           a->biased == b->biased;
}

/* The scale, then the bias, both on the f32 sum. */
static dnnl_status_t describe_end(const ff_product *form, ff_dnnl_md bias,
                                  dnnl_primitive_attr_t attributes) {
    dnnl_post_ops_t operations;
    dnnl_status_t status = dnnl_post_ops_create(&operations);
    if (status != dnnl_success) return status;
    if (form->scale != 1) status = ff_dnnl_append_scale(operations, form->scale);
    if (status == dnnl_success && form->biased)
        status = dnnl_post_ops_append_binary(operations, dnnl_binary_add, bias);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, operations);
    dnnl_post_ops_destroy(operations);
    return status;
}

static dnnl_status_t create(ff_onednn *self, struct ff_planned_product *p, const ff_dnnl_md md[4]) {
    dnnl_primitive_attr_t attributes;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_t *const memories[] = {&p->a, &p->b, &p->c, &p->bias};
    dnnl_status_t status = dnnl_primitive_attr_create(&attributes);
    if (status != dnnl_success) return status;
    status = describe_end(&p->form, md[3], attributes);
    if (status == dnnl_success)
        status = ff_dnnl_product_create(&pd, self->engine, md[0], md[1], md[2], attributes);
    if (status == dnnl_success) status = dnnl_primitive_create(&p->primitive, pd);
    for (int i = 0; i < 4 && status == dnnl_success; i++)
        status = dnnl_memory_create(memories[i], md[i], self->engine, DNNL_MEMORY_NONE);
    if (pd) dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

static void destroy(struct ff_planned_product *p) {
    dnnl_memory_t memories[] = {p->a, p->b, p->c, p->bias};
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    for (int i = 0; i < 4; i++)
        if (memories[i]) dnnl_memory_destroy(memories[i]);
}

static dnnl_status_t plan(ff_onednn *self, const ff_product *form, struct ff_planned_product *p) {
    const dnnl_dims_t dims[] = {
        {form->m, form->k}, {form->k, form->n}, {form->m, form->n}, {1, form->n}};
    const dnnl_data_type_t types[] = {self->type, self->type, form->wide ? dnnl_f32 : self->type,
                                      dnnl_f32};
    const bool turned[] = {form->a_turned, form->b_turned, false, false};
    ff_dnnl_md md[4] = {NULL};
    dnnl_status_t status = dnnl_success;
    *p = (struct ff_planned_product){.form = *form};
    for (int i = 0; i < 4 && status == dnnl_success; i++)
        status = ff_dnnl_md_create(&md[i], 2, dims[i], types[i], turned[i] ? dnnl_ba : dnnl_ab);
    if (status == dnnl_success) status = create(self, p, md);
    for (int i = 0; i < 4; i++) ff_dnnl_md_destroy(&md[i]);
    if (status != dnnl_success) destroy(p);
    return status;
}

/* The planned product of this form; planned at its first use. */
static dnnl_status_t find(ff_onednn *self, const ff_product *form,
                          struct ff_planned_product **product) {
    for (size_t i = 0; i < self->product_count; i++) {
        *product = &self->products[i];
        if (same(form, &(*product)->form)) return dnnl_success;
    }
    if (ff_reserve(&self->products, &self->product_capacity, self->product_count + 1,
                   sizeof **product, "a matrix product", NULL) != FF_OK)
        return dnnl_out_of_memory;
    *product = &self->products[self->product_count];
    const dnnl_status_t status = plan(self, form, *product);
    self->product_count += status == dnnl_success;
    return status;
}

static dnnl_status_t in_f32(const ff_product *p, const float *a, const float *b, const float *bias,
                            float *c) {
    for (dnnl_dim_t i = 0; p->biased && i < p->m; i++)
        memcpy(c + i * p->n, bias, (size_t)p->n * sizeof *c);
    return dnnl_sgemm(p->a_turned ? 'T' : 'N', p->b_turned ? 'T' : 'N', p->m, p->n, p->k, p->scale,
                      a, p->a_turned ? p->m : p->k, b, p->b_turned ? p->k : p->n, p->biased ? 1 : 0,
                      c, p->n);
}

dnnl_status_t ff_product_run(ff_onednn *self, const ff_product *form, const void *a, const void *b,
                             const float *bias, void *c) {
    struct ff_planned_product *p = NULL;
    if (self->type == dnnl_f32) return in_f32(form, a, b, bias, c);
    dnnl_status_t status = find(self, form, &p);
    if (status != dnnl_success) return status;
    const dnnl_memory_t memories[] = {p->a, p->b, p->c, p->bias};
    const void *const arrays[] = {a, b, c, bias};
    for (int i = 0; i < 4 && status == dnnl_success; i++)
        status = dnnl_memory_set_data_handle(memories[i], (void *)arrays[i]);
    if (status != dnnl_success) return status;
    const int last = form->scale != 1; /* the number of the post-operation that adds the bias */
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, p->a},
                                         {DNNL_ARG_WEIGHTS, p->b},
                                         {DNNL_ARG_DST, p->c},
                                         {DNNL_ARG_ATTR_MULTIPLE_POST_OP(last) | BIAS, p->bias}};
    status = dnnl_primitive_execute(p->primitive, self->stream, form->biased ? 4 : 3, arguments);
    return status == dnnl_success ? dnnl_stream_wait(self->stream) : status;
}

void ff_products_destroy(ff_onednn *self) {
    for (size_t i = 0; i < self->product_count; i++) destroy(&self->products[i]);
    free(self->products);
    self->products = NULL;
    self->product_count = self->product_capacity = 0;
}

#endif
