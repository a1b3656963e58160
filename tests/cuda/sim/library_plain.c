#include "tests/cuda/sim/library_plain.h"

#include "format/base/memory.h"
#include "tests/cuda/sim/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GEMM_WORKSPACE = 4096 };

/* Inner loops over this library's own memory, which sanitizers need not check. The caller's memory
 * is read and written elsewhere. */
#define FF_UNWATCHED __attribute__((no_sanitize("address", "thread", "undefined"), optimize("O3")))

typedef struct plain {
    ff_library base;
    void (*planned)(void *context, const ff_library_conv_spec *spec, const ff_library_conv *conv);
    void *planned_context;
    bool times;
    ff_library_tuning *tuning;
} plain;

/* A piece of work with its own copy of its arguments. */
static ff_status enqueue(void *stream, void (*function)(void *), const void *job, size_t bytes,
                         ff_error *error) {
    void *copy = malloc(bytes);
    if (!copy) return ff_fail(error, FF_NO_MEMORY, "no memory for the plain library's work");
    memcpy(copy, job, bytes);
    if (stream) {
        if (ff_device_sim_enqueue(stream, function, copy, free))
            return ff_fail(error, FF_FAILED, "the stream did not take the plain library's work");
        return FF_OK;
    }
    function(copy);
    free(copy);
    return FF_OK;
}

/* ---- convolutions ---- */

/* Sizes of one convolution in elements, and the workspace's parts: x, w, y as f32, then the sums
 * of the result as double. */
typedef struct sizes {
    int p, q; /* rows and columns of y */
    size_t x, w, y, sums;
} sizes;

static sizes sizes_of(const ff_library_conv_spec *s) {
    sizes z = {.p = ff_library_conv_out(s, s->h), .q = ff_library_conv_out(s, s->w)};
    z.x = (size_t)s->n * (size_t)s->h * (size_t)s->w * (size_t)s->c;
    z.w = (size_t)s->k * (size_t)s->kernel * (size_t)s->kernel * (size_t)(s->c / s->groups);
    z.y = (size_t)s->n * (size_t)z.p * (size_t)z.q * (size_t)s->k;
    z.sums = s->pass == FF_PASS_FORWARD ? z.y : s->pass == FF_PASS_BACKWARD_DATA ? z.x : z.w;
    return z;
}

typedef struct conv_job {
    ff_library_conv_spec spec;
    ff_library_conv_arguments a;
    double *sums;
    float *x, *w, *y;
    bool unrounded; /* ff_library_plain_unrounded */
} conv_job;

/* For every pixel (n, p, q) of y and every tap (r, t) of the filters. */
#define FOR_EACH_TAP(s, z)                                                                         \
    for (int n = 0; n < (s)->n; n++)                                                               \
        for (int p = 0; p < (z).p; p++)                                                            \
            for (int q = 0; q < (z).q; q++)                                                        \
                for (int r = 0; r < (s)->kernel; r++)                                              \
                    for (int t = 0; t < (s)->kernel; t++)

enum { AT_ONCE = 8 };

/* sums[k] += x . (the k-th of `count` filters, `step` apart). Each is summed in order; several at
 * once, so that none waits for its last addition. */
FF_UNWATCHED static void add_products(double *sums, const float *x, const float *w, size_t channels,
                                      size_t step, int count) {
    int k = 0;
    for (; k + AT_ONCE <= count; k += AT_ONCE) {
        double part[AT_ONCE] = {0};
        const float *filters = w + (size_t)k * step;
        for (size_t c = 0; c < channels; c++)
            for (size_t i = 0; i < AT_ONCE; i++) part[i] += (double)x[c] * filters[i * step + c];
        for (int i = 0; i < AT_ONCE; i++) sums[k + i] += part[i];
    }
    for (; k < count; k++) {
        double part = 0;
        for (size_t c = 0; c < channels; c++) part += (double)x[c] * w[(size_t)k * step + c];
        sums[k] += part;
    }
}

/* sums[c] += a b[c]. */
FF_UNWATCHED static void add_scaled(double *sums, double a, const float *b, size_t channels) {
    for (size_t c = 0; c < channels; c++) sums[c] += a * b[c];
}

static void multiply(const conv_job *job, const sizes *z) {
    const ff_library_conv_spec *s = &job->spec;
    const size_t all = (size_t)s->c, channels = all / (size_t)s->groups; /* of a group */
    const size_t filters = (size_t)(s->k / s->groups);
    const size_t step = (size_t)s->kernel * (size_t)s->kernel * channels; /* of a filter */
    memset(job->sums, 0, z->sums * sizeof *job->sums);
    FOR_EACH_TAP(s, *z) {
        const int h = p * s->stride - s->pad + r, w = q * s->stride - s->pad + t;
        if (h < 0 || h >= s->h || w < 0 || w >= s->w) continue;
        const size_t in = (((size_t)n * (size_t)s->h + (size_t)h) * (size_t)s->w + (size_t)w) * all;
        const size_t out =
            (((size_t)n * (size_t)z->p + (size_t)p) * (size_t)z->q + (size_t)q) * (size_t)s->k;
        for (size_t group = 0; group < (size_t)s->groups; group++) {
            const size_t x = in + group * channels, y = out + group * filters;
            const size_t f = group * filters * step + (size_t)(r * s->kernel + t) * channels;
            if (s->pass == FF_PASS_FORWARD)
                add_products(job->sums + y, job->x + x, job->w + f, channels, step, (int)filters);
            for (size_t k = 0; k < filters && s->pass == FF_PASS_BACKWARD_DATA; k++)
                add_scaled(job->sums + x, job->y[y + k], job->w + f + k * step, channels);
            for (size_t k = 0; k < filters && s->pass == FF_PASS_BACKWARD_WEIGHTS; k++)
                add_scaled(job->sums + f + k * step, job->y[y + k], job->x + x, channels);
        }
    }
}

static void scale_shift_relu(const conv_job *job, const sizes *z, ff_dtype dtype) {
    size_t channels = (size_t)job->spec.c;
    for (size_t i = 0; i < z->x; i++) {
        double scale = ff_element(job->a.scale, dtype, i % channels);
        double shift = ff_element(job->a.shift, dtype, i % channels);
        job->x[i] = (float)fmax(job->x[i] * scale + shift, 0);
    }
    /* Converts to the storage type, as the multiplier reads it; in place, since f32 is at least as
     * wide. */
    for (size_t i = 0; i < z->x; i++) {
        uint32_t stored;
        ff_convert(&stored, dtype, &job->x[i], FF_F32, 1);
        ff_convert(&job->x[i], FF_F32, &stored, dtype, 1);
    }
}

static double forward_epilogue(const conv_job *job, double v, size_t k, ff_dtype dtype) {
    ff_library_epilogue epilogue = job->spec.epilogue;
    if (epilogue == FF_EPILOGUE_NONE || epilogue == FF_EPILOGUE_STATISTICS) return v;
    double u = v + ff_element(job->a.bias, dtype, k);
    if (epilogue == FF_EPILOGUE_BIAS_RELU) return u < 0 ? 0 : u;
    if (epilogue == FF_EPILOGUE_BIAS_GELU) return u / 2 * (1 + erf(u / sqrt(2)));
    return u;
}

static double data_epilogue(const conv_job *job, double v, size_t i, ff_dtype dtype) {
    const ff_library_conv_arguments *a = &job->a;
    size_t c = i % (size_t)job->spec.c;
    if (job->spec.epilogue == FF_EPILOGUE_RELU_BACKWARD)
        return ff_element(a->relu_y, dtype, i) > 0 ? v : 0;
    if (job->spec.epilogue == FF_EPILOGUE_RELU_NORM_BACKWARD) {
        double xhat = (ff_element(a->norm_x, dtype, i) - a->mean[c]) * a->inv_std[c];
        return a->gamma[c] * xhat + a->beta[c] > 0 ? v : 0;
    }
    return v;
}

/* Sums over y as written, or over the values before they are rounded. */
static void statistics(const conv_job *job, const sizes *z, ff_dtype dtype) {
    size_t filters = (size_t)job->spec.k;
    for (size_t k = 0; k < filters; k++) {
        double sum = 0, squares = 0;
        for (size_t i = k; i < z->y; i += filters) {
            double y = job->unrounded ? (double)job->y[i] : ff_element(job->a.y, dtype, i);
            sum += y;
            squares += y * y;
        }
        job->a.sum[k] = (float)sum;
        job->a.square_sum[k] = (float)squares;
    }
}

/* Sums over x's gradient as written, or over the values before they are rounded. */
static void norm_backward(const conv_job *job, const sizes *z, ff_dtype dtype) {
    const ff_library_conv_arguments *a = &job->a;
    size_t channels = (size_t)job->spec.c;
    double m = (double)z->x / (double)channels;
    for (size_t c = 0; c < channels; c++) {
        double dgamma = 0, dbeta = 0, inv_std = a->inv_std[c], mean = a->mean[c];
        for (size_t i = c; i < z->x; i += channels) {
            double g = job->unrounded ? (double)job->x[i] : ff_element(a->x, dtype, i);
            dbeta += g;
            dgamma += g * (ff_element(a->norm_x, dtype, i) - mean) * inv_std;
        }
        double scale = a->gamma[c] * inv_std;
        a->dgamma[c] = (float)dgamma;
        a->dbeta[c] = (float)dbeta;
        a->gradient_scale[c] = (float)scale;
        a->input_scale[c] = (float)(-scale * inv_std * dgamma / m);
        a->offset[c] = (float)(scale * (mean * inv_std * dgamma - dbeta) / m);
    }
}

static void run_conv(void *context) {
    const conv_job *job = context;
    const ff_library_conv_spec *s = &job->spec;
    const ff_library_conv_arguments *a = &job->a;
    ff_dtype dtype = ff_precision_dtype(s->precision);
    sizes z = sizes_of(s);
    if (s->pass != FF_PASS_BACKWARD_DATA) ff_convert(job->x, FF_F32, a->x, dtype, z.x);
    if (s->pass != FF_PASS_BACKWARD_WEIGHTS) ff_convert(job->w, FF_F32, a->w, dtype, z.w);
    if (s->pass != FF_PASS_FORWARD) ff_convert(job->y, FF_F32, a->y, dtype, z.y);
    if (s->prologue == FF_PROLOGUE_SCALE_SHIFT_RELU) scale_shift_relu(job, &z, dtype);
    multiply(job, &z);
    switch (s->pass) {
    case FF_PASS_FORWARD:
        for (size_t i = 0; i < z.y; i++)
            job->y[i] = (float)forward_epilogue(job, job->sums[i], i % (size_t)s->k, dtype);
        ff_convert(a->y, dtype, job->y, FF_F32, z.y);
        if (s->epilogue == FF_EPILOGUE_STATISTICS) statistics(job, &z, dtype);
        break;
    case FF_PASS_BACKWARD_DATA:
        for (size_t i = 0; i < z.x; i++)
            job->x[i] = (float)data_epilogue(job, job->sums[i], i, dtype);
        ff_convert(a->x, dtype, job->x, FF_F32, z.x);
        if (s->epilogue == FF_EPILOGUE_RELU_NORM_BACKWARD) norm_backward(job, &z, dtype);
        break;
    case FF_PASS_BACKWARD_WEIGHTS:
        for (size_t i = 0; i < z.w; i++) job->w[i] = (float)job->sums[i];
        ff_convert(a->w, s->f32_gradient ? FF_F32 : dtype, job->w, FF_F32, z.w);
        break;
    }
}

static bool fused(const ff_library_conv_spec *spec) {
    return spec->prologue != FF_PROLOGUE_NONE || spec->epilogue != FF_EPILOGUE_NONE ||
           spec->f32_gradient;
}

static ff_status plain_conv_create(ff_library *library, const ff_library_conv_spec *spec,
                                   ff_library_conv **conv, ff_error *error) {
    const plain *l = (const plain *)library;
    *conv = NULL;
    if (library->table == &ff_library_plain_pieces && fused(spec)) {
        (void)ff_fail(error, FF_FAILED, "the plain library of pieces has no fused graphs");
    } else {
        FF_TRY(ff_alloc(conv, 1, sizeof **conv, "a plain convolution", error));
        sizes z = sizes_of(spec);
        (*conv)->spec = *spec;
        (*conv)->workspace_bytes = z.sums * sizeof(double) + (z.x + z.w + z.y) * sizeof(float);
        (*conv)->engine = (ff_library_engine){.name = "plain", .found = 1, .deterministic = true};
        if (l->times) {
            (*conv)->engine.timed = true;
            (*conv)->engine.ns = spec->c % 8 || spec->k % 8 ? 40000 : 10000;
        }
    }
    if (l->tuning) {
        l->tuning->convolutions++;
        l->tuning->timed += l->times && *conv;
    }
    if (l->planned) l->planned(l->planned_context, spec, *conv);
    return FF_OK;
}

static void plain_conv_destroy(ff_library *library, ff_library_conv *conv) {
    (void)library;
    free(conv);
}

static ff_status plain_conv_run(ff_library *library, ff_library_conv *conv, void *stream,
                                const ff_library_conv_arguments *arguments, void *workspace,
                                ff_error *error) {
    sizes z = sizes_of(&conv->spec);
    conv_job job = {.spec = conv->spec,
                    .a = *arguments,
                    .sums = workspace,
                    .unrounded = library->table == &ff_library_plain_unrounded};
    job.x = (float *)(job.sums + z.sums);
    job.w = job.x + z.x;
    job.y = job.w + z.w;
    return enqueue(stream, run_conv, &job, sizeof job, error);
}

/* ---- matrix products ---- */

/* `rows` rows of k values in f32 and in order: value (row, k) is at row * row_step + k * step. */
static float *gather(const void *from, ff_dtype dtype, int64_t rows, int64_t row_step, int64_t k,
                     int64_t step) {
    float *to = malloc((size_t)(rows * k) * sizeof *to + 1);
    if (!to) abort(); /* of a few MiB */
    for (int64_t row = 0; row < rows; row++)
        for (int64_t at = 0; at < k; at++)
            to[row * k + at] = (float)ff_element(from, dtype, (size_t)(row * row_step + at * step));
    return to;
}

/* c = alpha a b + beta c, summed in double. */
FF_UNWATCHED static void product(const ff_library_gemm *g, const float *a, const float *b,
                                 void *c) {
    const int64_t row_c = g->row_c ? g->row_c : g->n;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            const size_t at = (size_t)(i * row_c + j);
            double sum = 0;
            for (int64_t k = 0; k < g->k; k++) sum += (double)a[i * g->k + k] * b[j * g->k + k];
            sum *= g->alpha;
            if (g->beta != 0) sum += g->beta * ff_element(c, g->c_type, at);
            const float value = (float)sum;
            ff_convert((char *)c + at * ff_dtype_bytes(g->c_type), g->c_type, &value, FF_F32, 1);
        }
}

static void run_gemm(void *context) {
    const ff_library_gemm *g = context;
    const ff_dtype dtype = ff_precision_dtype(g->precision);
    const int64_t row_a = g->row_a ? g->row_a : g->transpose_a ? g->m : g->k;
    const int64_t row_b = g->row_b ? g->row_b : g->transpose_b ? g->k : g->n;
    const int64_t bytes = (int64_t)ff_dtype_bytes(dtype);
    for (int64_t matrix = 0; matrix < (g->batch ? g->batch : 1); matrix++) {
        float *a = gather((const char *)g->a + matrix * g->stride_a * bytes, dtype, g->m,
                          g->transpose_a ? 1 : row_a, g->k, g->transpose_a ? row_a : 1);
        float *b = gather((const char *)g->b + matrix * g->stride_b * bytes, dtype, g->n,
                          g->transpose_b ? row_b : 1, g->k, g->transpose_b ? 1 : row_b);
        product(g, a, b, (char *)g->c + matrix * g->stride_c * (int64_t)ff_dtype_bytes(g->c_type));
        free(a);
        free(b);
    }
}

static size_t plain_gemm_workspace(const ff_library *library) {
    (void)library;
    return GEMM_WORKSPACE;
}

static ff_status plain_gemm(ff_library *library, void *stream, const ff_library_gemm *gemm,
                            void *workspace, ff_error *error) {
    (void)library;
    if (!workspace) return ff_fail(error, FF_FAILED, "a matrix product was given no workspace");
    return enqueue(stream, run_gemm, gemm, sizeof *gemm, error);
}

/* ---- the tables ---- */

static ff_status open_table(ff_library **library, const ff_library_options *options,
                            const ff_library_table *table, ff_error *error) {
    plain *l;
    *library = NULL;
    FF_TRY(ff_alloc(&l, 1, sizeof *l, "the plain library", error));
    l->base.table = table;
    l->planned = options->planned;
    l->planned_context = options->planned_context;
    l->times = options->device && options->timing_seconds > 0;
    l->tuning = options->tuning;
    if (getenv("FF_SIM_ENGINES"))
        fprintf(stderr, "engines: timed for %g s, %s\n", options->timing_seconds,
                options->compile_nothing ? "none compiled" : "compiled");
    *library = &l->base;
    return FF_OK;
}
static ff_status plain_open(ff_library **library, const ff_library_options *options,
                            ff_error *error) {
    return open_table(library, options, &ff_library_plain, error);
}
static ff_status pieces_open(ff_library **library, const ff_library_options *options,
                             ff_error *error) {
    return open_table(library, options, &ff_library_plain_pieces, error);
}
static ff_status unrounded_open(ff_library **library, const ff_library_options *options,
                                ff_error *error) {
    return open_table(library, options, &ff_library_plain_unrounded, error);
}
static void plain_close(ff_library *library) {
    free(library);
}

const ff_library_table ff_library_plain = {
    .name = "plain",
    .open = plain_open,
    .close = plain_close,
    .conv_create = plain_conv_create,
    .conv_destroy = plain_conv_destroy,
    .conv_run = plain_conv_run,
    .gemm_workspace = plain_gemm_workspace,
    .gemm = plain_gemm,
};

const ff_library_table ff_library_plain_pieces = {
    .name = "plain pieces",
    .open = pieces_open,
    .close = plain_close,
    .conv_create = plain_conv_create,
    .conv_destroy = plain_conv_destroy,
    .conv_run = plain_conv_run,
    .gemm_workspace = plain_gemm_workspace,
    .gemm = plain_gemm,
};

const ff_library_table ff_library_plain_unrounded = {
    .name = "plain, sums of unrounded values",
    .open = unrounded_open,
    .close = plain_close,
    .conv_create = plain_conv_create,
    .conv_destroy = plain_conv_destroy,
    .conv_run = plain_conv_run,
    .gemm_workspace = plain_gemm_workspace,
    .gemm = plain_gemm,
};
