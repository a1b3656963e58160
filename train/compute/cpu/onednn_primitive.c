/* Convolutions by oneDNN's convolution primitives.
 *
 * For images of 1 to 3 channels oneDNN has kernels that read planes. If a pass lacks such a kernel
 * (the gradient of the weights for 1 channel with AVX2), the images are reordered into blocks
 * first. If the library has no kernel for blocks, all activations of the pass are reordered: into
 * channels last, for which it has kernels of the gradient of the first weights with images of 4 to
 * 15 channels and AVX-512; or into planes, for which it has matrix products on every processor:
 * these are all passes on arm64, and groups of several channels that are not a multiple of the
 * block.
 *
 * Algorithm: the gradient of the weights of outputs of up to 4 pixels is one matrix product
 * (onednn_patches.c), everything else is the library's. A fixed rule makes the choice, without
 * timing, so that a run repeats bit for bit. */
#include "train/compute/cpu/onednn_primitive.h"

#ifdef FF_HAVE_DNNL

#include "format/base/memory.h"
#include "train/compute/cpu/onednn_dense.h"
#include "train/compute/cpu/onednn_order.h"
#include "train/compute/cpu/onednn_patches.h"
#include "train/compute/cpu/onednn_version.h"

#include <assert.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* An array of a pass: in the caller's order and, if the pass needs another one, in scratch. The
 * memories point to the arrays during a call. */
typedef struct operand {
    dnnl_memory_t used, callers;
    dnnl_primitive_t reorder; /* before the pass, or after it if it writes the array; NULL = none */
    size_t offset;            /* in scratch, after the scratchpad */
} operand;

/* One pass of a convolution, with the arrays of its forward pass or their gradients. */
enum { SOURCE, WEIGHTS, DESTINATION, OPERANDS };
typedef struct pass {
    dnnl_primitive_t primitive;
    operand operands[OPERANDS];
    dnnl_memory_t bias, scratchpad;
    size_t scratch_bytes;
} pass;

/* The orders of activations in which a pass can be computed. */
typedef struct orders {
    ff_dnnl_md source, destination;
} orders;

typedef struct conv {
    ff_onednn_conv common;
    ff_dnnl_md source, destination, bias, dbias, held;
    ff_dnnl_order order;  /* of the held weights */
    ff_dnnl_md blocked;   /* the source in blocks, if it is images of planes; else NULL */
    ff_dnnl_md planes[2]; /* source and destination in planes, */
    ff_dnnl_md pixels[2]; /* and with channels last */
    bool patches;         /* the gradient of the weights is onednn_patches.c's */
    pass passes[FF_DNNL_PASSES];
} conv;

#define TRY_DNNL(call)                                                                             \
    do {                                                                                           \
        dnnl_status_t try_status = (call);                                                         \
        if (try_status != dnnl_success) return try_status;                                         \
    } while (0)

static dnnl_format_tag_t tag_of(const ff_tensor *t) {
    if (t->block == 16) return dnnl_nChw16c;
    if (t->block == 8) return dnnl_nChw8c;
    assert(t->block == 1);
    return dnnl_nchw;
}

static dnnl_format_tag_t weights_tag_of(const ff_tensor *input) {
    return input->block == 16 ? dnnl_OIhw16i16o : dnnl_OIhw8i8o;
}

/* 0: a kernel; 1: matrix products, for the gradient of the first weights with AVX-512 ten times as
 * slow; 2: the library's reference loops, hundreds of times slower than a kernel. */
enum { KERNEL, PRODUCTS, REFERENCE };
static int slowness(dnnl_primitive_desc_t pd) {
    const char *name = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != dnnl_success || !name)
        return KERNEL;
    if (strncmp(name, "ref", 3) == 0) return REFERENCE;
    return strstr(name, "gemm") ? PRODUCTS : KERNEL;
}

static dnnl_status_t describe(const conv *c, ff_dnnl_pass which, const orders *in, ff_dnnl_md any,
                              dnnl_primitive_desc_t *pd) {
    const ff_conv_shape *s = &c->common.base.shape;
    int after_h = (s->output.h - 1) * s->stride + s->kernel - s->input.h - s->pad;
    int after_w = (s->output.w - 1) * s->stride + s->kernel - s->input.w - s->pad;
    ff_dnnl_conv_desc desc = {
        .pass = FF_DNNL_FORWARD,
        .source = in->source,
        .weights = any,
        .bias = c->bias,
        .destination = in->destination,
        .strides = {s->stride, s->stride},
        .pad_before = {s->pad, s->pad},
        .pad_after = {after_h, after_w},
        .attributes = c->common.self->attributes,
    };
    dnnl_primitive_desc_t forward;
    TRY_DNNL(ff_dnnl_conv_create(&forward, c->common.self->engine, &desc));
    *pd = forward;
    if (which == FF_DNNL_FORWARD) return dnnl_success;
    desc.pass = which;
    desc.hint = forward;
    desc.bias = which == FF_DNNL_BACKWARD_WEIGHTS ? c->dbias : NULL;
    dnnl_status_t status = ff_dnnl_conv_create(pd, c->common.self->engine, &desc);
    dnnl_primitive_desc_destroy(forward);
    return status;
}

static dnnl_status_t memory_of(const conv *c, ff_dnnl_md md, dnnl_memory_t *memory) {
    return dnnl_memory_create(memory, md, c->common.self->engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t reorder_of(const conv *c, ff_dnnl_md from, ff_dnnl_md to,
                                dnnl_primitive_t *reorder) {
    dnnl_primitive_desc_t pd;
    TRY_DNNL(dnnl_reorder_primitive_desc_create(&pd, from, c->common.self->engine, to,
                                                c->common.self->engine, NULL));
    dnnl_status_t status = dnnl_primitive_create(reorder, pd);
    dnnl_primitive_desc_destroy(pd);
    return status;
}

/* Which array the pass writes. */
static int written_by(ff_dnnl_pass which) {
    return which == FF_DNNL_FORWARD         ? DESTINATION
           : which == FF_DNNL_BACKWARD_DATA ? SOURCE
                                            : WEIGHTS;
}

/* Adds the scratch of a copy in the order `used`, if that is not the caller's. */
static dnnl_status_t plan_operand(conv *c, operand *o, ff_dnnl_md callers, ff_dnnl_md used,
                                  bool written, size_t *bytes) {
    TRY_DNNL(memory_of(c, used, &o->used));
    if (dnnl_memory_desc_equal(callers, used)) return dnnl_success;
    TRY_DNNL(memory_of(c, callers, &o->callers));
    TRY_DNNL(reorder_of(c, written ? used : callers, written ? callers : used, &o->reorder));
    o->offset = *bytes;
    *bytes += ff_align_u64(dnnl_memory_desc_get_size(used), 4096);
    return dnnl_success;
}

/* Creates the primitive and memories of a pass from its descriptor. */
static dnnl_status_t finish_pass(conv *c, ff_dnnl_pass which, dnnl_primitive_desc_t pd,
                                 const orders *in, ff_dnnl_md weights, ff_dnnl_md scratchpad) {
    pass *p = &c->passes[which];
    TRY_DNNL(dnnl_primitive_create(&p->primitive, pd));
    TRY_DNNL(memory_of(c, scratchpad, &p->scratchpad));
    ff_dnnl_md bias = which == FF_DNNL_BACKWARD_WEIGHTS ? c->dbias : c->bias;
    if (bias) TRY_DNNL(memory_of(c, bias, &p->bias));
    if (!c->held) TRY_DNNL(ff_dnnl_md_copy(&c->held, weights));
    const ff_dnnl_md callers[OPERANDS] = {c->source, c->held, c->destination};
    const ff_dnnl_md used[OPERANDS] = {in->source, weights, in->destination};
    size_t bytes = ff_align_u64(dnnl_memory_desc_get_size(scratchpad), 4096);
    for (int i = 0; i < OPERANDS; i++)
        TRY_DNNL(
            plan_operand(c, &p->operands[i], callers[i], used[i], i == written_by(which), &bytes));
    p->scratch_bytes = bytes;
    if (bytes > c->common.base.scratch_bytes) c->common.base.scratch_bytes = bytes;
    return dnnl_success;
}

/* The descriptor of the pass in the orders that are computed fastest, the first of them. */
static dnnl_status_t choose(const conv *c, ff_dnnl_pass which, ff_dnnl_md any, orders *in,
                            dnnl_primitive_desc_t *pd) {
    const orders ways[] = {{c->source, c->destination},
                           {c->blocked, c->destination},
                           {c->planes[0], c->planes[1]},
                           {c->pixels[0], c->pixels[1]}};
    for (int slow = KERNEL; slow <= REFERENCE; slow++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            *in = ways[i];
            if (!in->source || describe(c, which, in, any, pd) != dnnl_success) continue;
            if (slowness(*pd) <= slow) return dnnl_success;
            dnnl_primitive_desc_destroy(*pd);
        }
    *in = ways[0];
    return describe(c, which, in, any, pd); /* the error */
}

static dnnl_status_t plan_pass(conv *c, ff_dnnl_pass which, ff_dnnl_md any) {
    dnnl_primitive_desc_t pd = NULL;
    ff_dnnl_md weights = NULL, scratchpad = NULL;
    orders in;
    TRY_DNNL(choose(c, which, any, &in, &pd));
    dnnl_status_t status = ff_dnnl_md_query(
        &weights, pd,
        which == FF_DNNL_BACKWARD_WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md);
    if (status == dnnl_success)
        status = ff_dnnl_md_query(&scratchpad, pd, dnnl_query_scratchpad_md);
    if (status == dnnl_success) status = finish_pass(c, which, pd, &in, weights, scratchpad);
    ff_dnnl_md_destroy(&weights);
    ff_dnnl_md_destroy(&scratchpad);
    dnnl_primitive_desc_destroy(pd);
    return status;
}

/* Whether weights are held in that order. */
static bool holds(const conv *c, int dims, const dnnl_dims_t weights, dnnl_format_tag_t tag) {
    ff_dnnl_md order = NULL;
    if (ff_dnnl_md_create(&order, dims, weights, dnnl_f32, tag) != dnnl_success) return false;
    const bool same = dnnl_memory_desc_equal(c->held, order);
    ff_dnnl_md_destroy(&order);
    return same;
}

/* Plans the gradients, after the forward pass has decided how weights are held. */
static dnnl_status_t plan_gradients(conv *c, int dims, const dnnl_dims_t weights, ff_dnnl_md any) {
    const ff_conv_shape *s = &c->common.base.shape;
    const bool narrow = c->common.self->type != dnnl_f32; /* own loops are for f32 */
    c->patches = !narrow && ff_patches_fit(c->common.self, s) &&
                 holds(c, dims, weights, weights_tag_of(&s->input));
    if (s->input_gradient) TRY_DNNL(plan_pass(c, FF_DNNL_BACKWARD_DATA, any));
    if (!s->training || s->frozen) return dnnl_success;
    if (!c->patches) return plan_pass(c, FF_DNNL_BACKWARD_WEIGHTS, any);
    const size_t bytes = ff_patches_scratch_bytes(s);
    if (bytes > c->common.base.scratch_bytes) c->common.base.scratch_bytes = bytes;
    return dnnl_success;
}

static dnnl_status_t plan(conv *c, const conv *sibling) {
    const ff_conv_shape *s = &c->common.base.shape;
    const dnnl_dims_t source = {s->input.n, s->input.c, s->input.h, s->input.w};
    const dnnl_dims_t destination = {s->output.n, s->output.c, s->output.h, s->output.w};
    const int groups = s->groups, dims = groups > 1 ? 5 : 4;
    const dnnl_dims_t plain = {s->output.c, s->input.c, s->kernel, s->kernel};
    const dnnl_dims_t grouped = {groups, s->output.c / groups, s->input.c / groups, s->kernel,
                                 s->kernel};
    const dnnl_dim_t *weights = groups > 1 ? grouped : plain;
    const dnnl_dims_t bias = {s->output.c};
    const dnnl_data_type_t type = c->common.self->type;
    ff_dnnl_md any = NULL;
    TRY_DNNL(ff_dnnl_md_create(&c->source, 4, source, type, tag_of(&s->input)));
    if (s->input.block == 1 && !s->input_gradient)
        TRY_DNNL(ff_dnnl_md_create(&c->blocked, 4, source, type, tag_of(&s->output)));
    TRY_DNNL(ff_dnnl_md_create(&c->destination, 4, destination, type, tag_of(&s->output)));
    TRY_DNNL(ff_dnnl_md_create(&c->planes[0], 4, source, type, dnnl_nchw));
    TRY_DNNL(ff_dnnl_md_create(&c->planes[1], 4, destination, type, dnnl_nchw));
    TRY_DNNL(ff_dnnl_md_create(&c->pixels[0], 4, source, type, dnnl_nhwc));
    TRY_DNNL(ff_dnnl_md_create(&c->pixels[1], 4, destination, type, dnnl_nhwc));
    if (s->bias) TRY_DNNL(ff_dnnl_md_create(&c->bias, 1, bias, type, dnnl_x));
    if (s->bias) TRY_DNNL(ff_dnnl_md_create(&c->dbias, 1, bias, dnnl_f32, dnnl_x));
    if (sibling && sibling->common.way != &ff_primitive_way)
        TRY_DNNL(ff_dnnl_md_create(&c->held, dims, weights, type, weights_tag_of(&s->input)));
    else if (sibling)
        TRY_DNNL(ff_dnnl_md_copy(&c->held, sibling->held));
    TRY_DNNL(ff_dnnl_md_create(&any, dims, weights, type, dnnl_format_tag_any));
    dnnl_status_t status = plan_pass(c, FF_DNNL_FORWARD, any);
    if (status == dnnl_success) status = plan_gradients(c, dims, weights, any);
    ff_dnnl_md_destroy(&any);
    if (status == dnnl_success) status = ff_dnnl_order_of(&c->order, c->held);
    if (status == dnnl_success)
        c->common.base.weight_count =
            dnnl_memory_desc_get_size(c->held) / c->common.self->base.element_bytes;
    return status;
}

static void release_memory(dnnl_memory_t memory) {
    if (memory) dnnl_memory_destroy(memory);
}

static void destroy(ff_conv *base) {
    conv *c = (conv *)base;
    for (int i = 0; i < FF_DNNL_PASSES; i++) {
        pass *p = &c->passes[i];
        if (p->primitive) dnnl_primitive_destroy(p->primitive);
        for (operand *o = p->operands; o < p->operands + OPERANDS; o++) {
            if (o->reorder) dnnl_primitive_destroy(o->reorder);
            release_memory(o->used);
            release_memory(o->callers);
        }
        release_memory(p->bias);
        release_memory(p->scratchpad);
    }
    ff_dnnl_md_destroy(&c->blocked);
    for (int i = 0; i < 2; i++) ff_dnnl_md_destroy(&c->planes[i]);
    for (int i = 0; i < 2; i++) ff_dnnl_md_destroy(&c->pixels[i]);
    ff_dnnl_md_destroy(&c->source);
    ff_dnnl_md_destroy(&c->destination);
    ff_dnnl_md_destroy(&c->bias);
    ff_dnnl_md_destroy(&c->dbias);
    ff_dnnl_md_destroy(&c->held);
    free(c);
}

ff_status ff_primitive_create(ff_onednn *self, const ff_conv_shape *shape, const ff_conv *sibling,
                              ff_conv **out, ff_error *error) {
    conv *c;
    *out = NULL;
    FF_TRY(ff_alloc(&c, 1, sizeof *c, "a convolution", error));
    c->common = (ff_onednn_conv){.base.shape = *shape, .self = self, .way = &ff_primitive_way};
    omp_set_num_threads(self->base.threads); /* the library plans for the threads it sees */
    const dnnl_status_t status = plan(c, (const conv *)sibling);
    if (status == dnnl_success)
        *out = &c->common.base;
    else
        destroy(&c->common.base);
    return status == dnnl_success ? FF_OK : ff_onednn_conv_failed(error, shape, status, "plan");
}

static void import(const ff_conv *base, const float *oihw, float *held) {
    ff_order_import(&((const conv *)base)->order, oihw, held, base->weight_count);
}

static void export(const ff_conv *base, const float *held, float *oihw) {
    ff_order_export(&((const conv *)base)->order, held, oihw);
}

/* Between the caller's array and the one in scratch. */
static dnnl_status_t reorder(const conv *c, const operand *o, bool written) {
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, written ? o->used : o->callers},
                                         {DNNL_ARG_TO, written ? o->callers : o->used}};
    return dnnl_primitive_execute(o->reorder, c->common.self->stream, 2, arguments);
}

/* Whether the pass reads parts of its scratch that it does not write (seen with oneDNN 2.6): in
 * bf16, the gradient of the weights lays the columns of a row out by their remainder modulo the
 * stride, and a row shorter than the stride has no column for some remainders. */
static bool reads_unwritten(const conv *c, ff_dnnl_pass which) {
    const ff_conv_shape *s = &c->common.base.shape;
    return which == FF_DNNL_BACKWARD_WEIGHTS && c->common.self->type != dnnl_f32 &&
           s->input.w < s->stride;
}

/* Runs one pass, which writes one of the arrays (written_by). */
static dnnl_status_t run(conv *c, ff_dnnl_pass which, const void *source, const void *weights,
                         const void *bias, const void *destination, char *scratch) {
    const pass *p = &c->passes[which];
    const bool back = which == FF_DNNL_BACKWARD_WEIGHTS;
    const void *const arrays[OPERANDS] = {source, weights, destination};
    const int written = written_by(which);
    if (reads_unwritten(c, which)) memset(scratch, 0, p->scratch_bytes);
    for (int i = 0; i < OPERANDS; i++) {
        const operand *o = &p->operands[i];
        void *array = (void *)arrays[i];
        TRY_DNNL(dnnl_memory_set_data_handle(o->used, o->reorder ? scratch + o->offset : array));
        if (o->reorder) TRY_DNNL(dnnl_memory_set_data_handle(o->callers, array));
        if (o->reorder && i != written) TRY_DNNL(reorder(c, o, false));
    }
    TRY_DNNL(dnnl_memory_set_data_handle(p->scratchpad, scratch));
    dnnl_exec_arg_t arguments[5] = {
        {which == FF_DNNL_BACKWARD_DATA ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC,
         p->operands[SOURCE].used},
        {back ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, p->operands[WEIGHTS].used},
        {which == FF_DNNL_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST,
         p->operands[DESTINATION].used},
        {DNNL_ARG_SCRATCHPAD, p->scratchpad},
    };
    int count = 4;
    if (bias) {
        TRY_DNNL(dnnl_memory_set_data_handle(p->bias, (void *)bias));
        arguments[count++] = (dnnl_exec_arg_t){back ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS, p->bias};
    }
    TRY_DNNL(dnnl_primitive_execute(p->primitive, c->common.self->stream, count, arguments));
    if (p->operands[written].reorder) TRY_DNNL(reorder(c, &p->operands[written], true));
    return dnnl_stream_wait(c->common.self->stream);
}

static dnnl_status_t forward(ff_conv *base, const void *x, const void *w, const void *bias, void *y,
                             void *scratch) {
    return run((conv *)base, FF_DNNL_FORWARD, x, w, bias, y, scratch);
}

static dnnl_status_t backward_data(ff_conv *base, const void *dy, const void *w, void *dx,
                                   void *scratch) {
    return run((conv *)base, FF_DNNL_BACKWARD_DATA, dx, w, NULL, dy, scratch);
}

static dnnl_status_t backward_weights(ff_conv *base, const void *x, const void *dy, void *dw,
                                      float *dbias, void *scratch) {
    conv *c = (conv *)base;
    if (!c->patches) return run(c, FF_DNNL_BACKWARD_WEIGHTS, x, dw, dbias, dy, scratch);
    if (dbias) ff_dense_sum_pixels(&c->common.self->base, &base->shape.output, dy, dbias);
    return ff_patches_backward_weights(base, x, dy, dw, scratch);
}

const ff_onednn_way ff_primitive_way = {
    .destroy = destroy,
    .import = import,
    .export = export,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
};

#endif
