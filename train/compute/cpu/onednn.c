/* The oneDNN table: convolutions and matrix products by the library, fused kernels around them. */
#include "train/compute/cpu/onednn.h"

#ifdef FF_HAVE_DNNL

#include "format/base/memory.h"
#include "train/compute/cpu/cpu.h"
#include "train/compute/cpu/fused.h"
#include "train/compute/cpu/onednn_product.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static bool has(dnnl_cpu_isa_t needed) {
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)needed) == (unsigned)needed;
}
static bool has_avx512(void) {
    return has(dnnl_cpu_isa_avx512_core);
}

static void close_onednn(ff_compute *compute) {
    ff_onednn *self = (ff_onednn *)compute;
    ff_products_destroy(self);
    if (self->attributes) dnnl_primitive_attr_destroy(self->attributes);
    if (self->stream) dnnl_stream_destroy(self->stream);
    if (self->engine) dnnl_engine_destroy(self->engine);
    ff_compute_end(&self->base);
    free(self);
}

static int channel_block(const ff_compute *compute, int channels) {
    (void)channels;
    return ((const ff_onednn *)compute)->block;
}

static void failed(ff_compute *compute, dnnl_status_t status) {
    ff_fail(ff_compute_error(compute), status == dnnl_out_of_memory ? FF_NO_MEMORY : FF_FAILED,
            "oneDNN cannot run a linear layer (status %d)", (int)status);
}

static void linear_forward(ff_compute *compute, const ff_linear *linear, const void *x,
                           const void *w, const float *bias, void *y) {
    const ff_product product = {
        .m = linear->input.n,
        .n = linear->outputs,
        .k = (dnnl_dim_t)ff_tensor_sample(&linear->input),
        .scale = linear->scale,
        .b_turned = true,
        .wide = linear->logits,
        .biased = bias != NULL,
    };
    omp_set_num_threads(compute->threads);
    const dnnl_status_t status = ff_product_run((ff_onednn *)compute, &product, x, w, bias, y);
    if (status != dnnl_success) failed(compute, status);
}

/* The sums of dy over the samples. */
static void sum_rows(const ff_compute *compute, dnnl_dim_t n, dnnl_dim_t outputs, const char *dy,
                     float *dbias) {
    for (dnnl_dim_t o = 0; o < outputs; o++) {
        double sum = 0;
        for (dnnl_dim_t i = 0; i < n; i++)
            sum += ff_element(dy, compute->dtype, (size_t)(i * outputs + o));
        dbias[o] = (float)sum;
    }
}

static void linear_backward(ff_compute *compute, const ff_linear *linear, const void *x,
                            const void *w, const void *dy, void *dx, void *dw, float *dbias,
                            void *scratch) {
    (void)scratch;
    ff_onednn *self = (ff_onednn *)compute;
    const dnnl_dim_t n = linear->input.n, inputs = (dnnl_dim_t)ff_tensor_sample(&linear->input);
    const dnnl_dim_t outputs = linear->outputs;
    const ff_product weights = {
        .m = outputs, .n = inputs, .k = n, .scale = linear->scale, .a_turned = true};
    const ff_product data = {.m = n, .n = inputs, .k = outputs, .scale = linear->scale};
    dnnl_status_t status = dnnl_success;
    omp_set_num_threads(compute->threads);
    if (dw) status = ff_product_run(self, &weights, dy, x, NULL, dw);
    if (dbias) sum_rows(compute, n, outputs, dy, dbias);
    if (dx && status == dnnl_success) status = ff_product_run(self, &data, dy, w, NULL, dx);
    if (status != dnnl_success) failed(compute, status);
}

static void product(void *context, bool transposed, size_t m, size_t n, size_t k, float alpha,
                    const float *a, const float *b, float beta, float *c) {
    omp_set_num_threads(((const ff_compute *)context)->threads);
    dnnl_sgemm('N', transposed ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, alpha, a,
               (dnnl_dim_t)k, b, (dnnl_dim_t)(transposed ? k : n), beta, c, (dnnl_dim_t)n);
}

static ff_status update_create(ff_compute *compute, const ff_update_spec *spec,
                               ff_prepared_update **update, ff_error *error) {
    return ff_cpu_update_create(compute, spec, product, update, error);
}

/* The plain loops' table, with faster entries. */
static void fill(ff_compute_ops *table, ff_dtype dtype) {
    *table = *ff_reference_ops_of(dtype);
    table->name = ff_onednn_ops.name;
    table->close = close_onednn;
    table->channel_block = channel_block; /* images stay planes: first-layer kernels read NCHW */
    table->conv_create = ff_onednn_conv_create;
    table->conv_destroy = ff_onednn_conv_destroy;
    table->conv_import = ff_onednn_conv_import;
    table->conv_export = ff_onednn_conv_export;
    table->conv_forward = ff_onednn_conv_forward;
    table->conv_forward_fused = ff_onednn_conv_forward_fused;
    table->conv_backward_data = ff_onednn_conv_backward_data;
    table->conv_backward_weights = ff_onednn_conv_backward_weights;
    table->fold_norm = ff_fused_fold_norm;
    table->fold_backward = ff_onednn_conv_fold_backward;
    table->linear_forward = linear_forward;
    table->linear_backward = linear_backward;
    table->update_create = update_create;
    table->norm_scratch = ff_fused_norm_scratch;
    table->norm_train = ff_fused_norm_train;
    table->norm_evaluate = ff_fused_norm_evaluate;
    table->norm_backward = ff_fused_norm_backward;
    table->pool_forward = ff_fused_pool_forward;
    table->pool_backward = ff_fused_pool_backward;
    table->activation_forward = ff_fused_activation_forward;
    table->activation_backward = ff_fused_activation_backward;
    table->add = ff_fused_add;
}

/* Measured as the peak minus what was counted, of smallnet, cifarnet, resnet18, resnet50,
 * mobilenet_v2 and vgg11_bn, with oneDNN 2.6: 33 to 36 MiB in f32 with the library's Winograd, 27
 * to 33 in bf16 without it; 29 to 32 on a processor without AVX-512. Earlier, when the largest
 * parameter was counted, too: 40 to 52 MiB with 3.2, 33 to 46 with 3.7. */
#define PROGRAM_2_BYTES      (34u << 20)
#define PROGRAM_2_BF16_BYTES (31u << 20)
#define PROGRAM_2_AVX2_BYTES (31u << 20)
#define PROGRAM_3_BYTES      (44u << 20)
#define PROGRAM_3_7_BYTES    (40u << 20)

static uint64_t program_bytes(const dnnl_version_t *version, ff_dtype dtype) {
    if (version->major < 3 && dtype == FF_BF16) return PROGRAM_2_BF16_BYTES;
    if (version->major < 3) return has_avx512() ? PROGRAM_2_BYTES : PROGRAM_2_AVX2_BYTES;
    return version->major == 3 && version->minor < 7 ? PROGRAM_3_BYTES : PROGRAM_3_7_BYTES;
}

/* Without these instructions the library computes bf16 by emulation, slower than f32. */
static ff_status allows(ff_precision precision, ff_error *error) {
    FF_TRY(ff_cpu_allows(precision, error));
    if (precision == FF_PRECISION_F32 || has(dnnl_cpu_isa_avx512_core_bf16)) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s needs a CPU with AMX or avx512_bf16; this CPU has neither: use f32",
                   ff_precision_name(precision));
}

static ff_status open_onednn(ff_compute **compute, const ff_compute_options *options,
                             ff_error *error) {
    ff_onednn *self;
    *compute = NULL;
    FF_TRY(ff_alloc(&self, 1, sizeof *self, "the compute table", error));
    fill(&self->table, ff_precision_dtype(options->precision));
    ff_status status = ff_cpu_begin(&self->base, &self->table, options, error);
    if (status != FF_OK) {
        free(self);
        return status;
    }
    self->base.fusions |= FF_FUSE_NORM_DEPTHWISE;
    self->block = has_avx512() ? 16 : 8;
    self->type = self->base.dtype == FF_BF16 ? dnnl_bf16 : dnnl_f32;
    const dnnl_version_t *version = dnnl_version();
    self->winograd = self->base.dtype != FF_BF16 || !has(dnnl_cpu_isa_avx512_core_amx);
    self->base.program_bytes = program_bytes(version, self->base.dtype);
    snprintf(self->base.description, sizeof self->base.description, "onednn %d.%d.%d, %s%s",
             version->major, version->minor, version->patch,
             has_avx512() ? "avx512_core" : "no avx512",
             self->base.dtype == FF_BF16 ? ", bf16" : "");
    if (dnnl_engine_create(&self->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&self->stream, self->engine, dnnl_stream_default_flags) !=
            dnnl_success ||
        dnnl_primitive_attr_create(&self->attributes) != dnnl_success ||
        dnnl_primitive_attr_set_scratchpad_mode(self->attributes, dnnl_scratchpad_mode_user) !=
            dnnl_success) {
        close_onednn(&self->base);
        return ff_fail(error, FF_FAILED, "oneDNN %d.%d.%d does not start on this processor",
                       version->major, version->minor, version->patch);
    }
    *compute = &self->base;
    return FF_OK;
}

const ff_compute_ops ff_onednn_ops = {.name = "onednn", .allows = allows, .open = open_onednn};

#endif
