/* The oneDNN table: convolutions and matrix products by the library, fused kernels around them. */
#include "train/compute/cpu/onednn.h"

#ifdef FF_HAVE_DNNL

#include "format/base/memory.h"
#include "train/compute/cpu/cpu.h"
#include "train/compute/cpu/fused.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static bool has_avx512(void) {
    const unsigned needed = dnnl_cpu_isa_avx512_core;
    return ((unsigned)dnnl_get_effective_cpu_isa() & needed) == needed;
}

static void close_onednn(ff_compute *compute) {
    ff_onednn *self = (ff_onednn *)compute;
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

static void linear_forward(ff_compute *compute, const ff_linear *linear, const void *x,
                           const void *w, const float *bias, void *y_memory) {
    float *y = y_memory;
    const dnnl_dim_t n = linear->input.n, inputs = (dnnl_dim_t)ff_tensor_sample(&linear->input);
    const dnnl_dim_t outputs = linear->outputs;
    omp_set_num_threads(compute->threads);
    for (dnnl_dim_t i = 0; i < n; i++)
        for (dnnl_dim_t o = 0; bias && o < outputs; o++) y[i * outputs + o] = bias[o];
    dnnl_sgemm('N', 'T', n, outputs, inputs, linear->scale, x, inputs, w, inputs, bias ? 1 : 0, y,
               outputs);
}

static void linear_backward(ff_compute *compute, const ff_linear *linear, const void *x,
                            const void *w, const void *dy_memory, void *dx, void *dw, float *dbias,
                            void *scratch) {
    (void)scratch;
    const float *dy = dy_memory;
    const dnnl_dim_t n = linear->input.n, inputs = (dnnl_dim_t)ff_tensor_sample(&linear->input);
    const dnnl_dim_t outputs = linear->outputs;
    omp_set_num_threads(compute->threads);
    const float scale = linear->scale;
    if (dw) dnnl_sgemm('T', 'N', outputs, inputs, n, scale, dy, outputs, x, inputs, 0, dw, inputs);
    for (dnnl_dim_t o = 0; dbias && o < outputs; o++) {
        double sum = 0;
        for (dnnl_dim_t i = 0; i < n; i++) sum += (double)dy[i * outputs + o];
        dbias[o] = (float)sum;
    }
    if (dx) dnnl_sgemm('N', 'N', n, inputs, outputs, scale, dy, outputs, w, inputs, 0, dx, inputs);
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
static void fill(ff_compute_ops *table) {
    *table = ff_reference_ops_f32;
    table->bf16 = false;
    table->name = ff_onednn_ops.name;
    table->close = close_onednn;
    table->channel_block = channel_block; /* images stay planes: first-layer kernels read NCHW */
    table->conv_create = ff_onednn_conv_create;
    table->conv_destroy = ff_onednn_conv_destroy;
    table->conv_import = ff_onednn_conv_import;
    table->conv_export = ff_onednn_conv_export;
    table->conv_forward = ff_onednn_conv_forward;
    table->conv_backward_data = ff_onednn_conv_backward_data;
    table->conv_backward_weights = ff_onednn_conv_backward_weights;
    table->norm_scratch = ff_fused_norm_scratch;
    table->norm_train = ff_fused_norm_train;
    table->norm_evaluate = ff_fused_norm_evaluate;
    table->norm_backward = ff_fused_norm_backward;
    table->pool_forward = ff_fused_pool_forward;
    table->pool_backward = ff_fused_pool_backward;
    table->linear_forward = linear_forward;
    table->linear_backward = linear_backward;
    table->activation_forward = ff_fused_activation_forward;
    table->activation_backward = ff_fused_activation_backward;
    table->add = ff_fused_add;
    table->update_create = update_create;
}

/* Measured as the peak minus what was counted, over nine runs each of smallnet, cifarnet, resnet18,
 * resnet50, mobilenet_v2, vgg11 and vgg11_bn: 26 to 40 MiB with oneDNN 2.6, 40 to 52 with 3.2. With
 * oneDNN 2.6 and without AVX-512 (one run each of six of these nets): 21 to 31 MiB. With 3.7 (four
 * runs each of six nets): 33 to 46 MiB. */
#define PROGRAM_2_BYTES      (33u << 20)
#define PROGRAM_2_AVX2_BYTES (28u << 20)
#define PROGRAM_3_BYTES      (44u << 20)
#define PROGRAM_3_7_BYTES    (40u << 20)

static uint64_t program_bytes(const dnnl_version_t *version) {
    if (version->major < 3) return has_avx512() ? PROGRAM_2_BYTES : PROGRAM_2_AVX2_BYTES;
    return version->major == 3 && version->minor < 7 ? PROGRAM_3_BYTES : PROGRAM_3_7_BYTES;
}

static ff_status open_onednn(ff_compute **compute, const ff_compute_options *options,
                             ff_error *error) {
    ff_onednn *self;
    *compute = NULL;
    FF_TRY(ff_alloc(&self, 1, sizeof *self, "the compute table", error));
    fill(&self->table);
    ff_status status = ff_cpu_begin(&self->base, &self->table, options, error);
    if (status != FF_OK) {
        free(self);
        return status;
    }
    self->block = has_avx512() ? 16 : 8;
    const dnnl_version_t *version = dnnl_version();
    self->base.program_bytes = program_bytes(version);
    snprintf(self->base.description, sizeof self->base.description, "onednn %d.%d.%d, %s",
             version->major, version->minor, version->patch,
             has_avx512() ? "avx512_core" : "no avx512");
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

const ff_compute_ops ff_onednn_ops = {.name = "onednn", .open = open_onednn};

#endif
