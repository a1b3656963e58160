#include "tests/cuda/sim/library_agree.h"

#include "format/base/memory.h"
#include "tests/cuda/sim/library_plain.h"
#include "tests/unit/dice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, POISON = 0xFF, FENCE = 0xEE, MOST = 16 };

/* ---- tensors of a run, on the host for the plain loops and on the device ---- */

typedef struct operand {
    const char *name;
    size_t offset; /* of its pointer in the arguments' struct */
    ff_dtype type;
    size_t count;
    bool output, positive;
    char *host, *device; /* GUARD bytes, the elements, GUARD bytes */
    char *other;         /* an output, by the loops that sum unrounded values; NULL in a product */
} operand;

typedef struct operands {
    operand list[MOST];
    int count;
} operands;

static void add(operands *o, const char *name, size_t offset, ff_dtype type, size_t count,
                bool output) {
    o->list[o->count++] =
        (operand){.name = name, .offset = offset, .type = type, .count = count, .output = output};
}
#define ADD(o, field, type, count, output)                                                         \
    add(o, #field, offsetof(ff_library_conv_arguments, field), type, count, output)

static void list_operands(operands *o, const ff_library_conv_spec *s) {
    ff_dtype dtype = ff_precision_dtype(s->precision), w_type = s->f32_gradient ? FF_F32 : dtype;
    ff_library_conv_sizes bytes = ff_library_conv_bytes(s);
    size_t c = (size_t)s->c, k = (size_t)s->k, x = bytes.x / ff_dtype_bytes(dtype);
    ADD(o, x, dtype, x, s->pass == FF_PASS_BACKWARD_DATA);
    ADD(o, w, w_type, bytes.w / ff_dtype_bytes(w_type), s->pass == FF_PASS_BACKWARD_WEIGHTS);
    ADD(o, y, dtype, bytes.y / ff_dtype_bytes(dtype), s->pass == FF_PASS_FORWARD);
    if (s->prologue == FF_PROLOGUE_SCALE_SHIFT_RELU) {
        ADD(o, scale, dtype, c, false);
        ADD(o, shift, dtype, c, false);
    }
    switch (s->epilogue) {
    case FF_EPILOGUE_NONE: break;
    case FF_EPILOGUE_BIAS:
    case FF_EPILOGUE_BIAS_RELU:
    case FF_EPILOGUE_BIAS_GELU: ADD(o, bias, dtype, k, false); break;
    case FF_EPILOGUE_STATISTICS:
        ADD(o, sum, FF_F32, k, true);
        ADD(o, square_sum, FF_F32, k, true);
        break;
    case FF_EPILOGUE_RELU_BACKWARD: ADD(o, relu_y, dtype, x, false); break;
    case FF_EPILOGUE_RELU_NORM_BACKWARD:
        ADD(o, norm_x, dtype, x, false);
        ADD(o, mean, FF_F32, c, false);
        ADD(o, inv_std, FF_F32, c, false);
        o->list[o->count - 1].positive = true;
        ADD(o, gamma, FF_F32, c, false);
        ADD(o, beta, FF_F32, c, false);
        ADD(o, dgamma, FF_F32, c, true);
        ADD(o, dbeta, FF_F32, c, true);
        ADD(o, gradient_scale, FF_F32, c, true);
        ADD(o, input_scale, FF_F32, c, true);
        ADD(o, offset, FF_F32, c, true);
        break;
    }
}

static size_t bytes_of(const operand *o) {
    return o->count * ff_dtype_bytes(o->type);
}

static void draw(dice *d, operand *o) {
    for (size_t i = 0; i < o->count; i++) {
        float value = gauss(d);
        if (o->positive) value = 0.5f + fabsf(value);
        ff_convert(o->host + GUARD + i * ff_dtype_bytes(o->type), o->type, &value, FF_F32, 1);
    }
}

/* Host and device copies; outputs are poison. */
static ff_status place(ff_agreement *a, ff_stream *stream, dice *d, operands *o, ff_error *error) {
    const ff_device_table *table = a->device->table;
    for (int i = 0; i < o->count; i++) {
        operand *one = &o->list[i];
        size_t all = bytes_of(one) + 2 * GUARD;
        void *pinned = NULL;
        FF_TRY(table->allocate_pinned(a->device, &pinned, all, one->name, error));
        one->host = pinned;
        memset(one->host, FENCE, all);
        if (one->output)
            memset(one->host + GUARD, POISON, bytes_of(one));
        else
            draw(d, one);
        FF_TRY(table->allocate(a->device, (void **)&one->device, all, one->name, error));
        FF_TRY(table->copy(a->device, stream, one->device, one->host, all, error));
    }
    return table->stream_synchronize(a->device, stream, error);
}

static void release(ff_agreement *a, operands *o) {
    for (int i = 0; i < o->count; i++) {
        free(o->list[i].other);
        a->device->table->release_pinned(a->device, o->list[i].host);
        a->device->table->release(a->device, o->list[i].device);
    }
}

/* The tolerance, relative to the larger of the value and the root mean square of all, beyond the
 * results with sums of rounded and of unrounded values: one rounding
 * of a stored value, and for f32 the order of a few thousand sums. tf32 rounds the factors to 10
 * bits of mantissa. */
static double tolerance(ff_precision precision, ff_dtype type) {
    double factors = precision == FF_PRECISION_TF32 ? 4e-3 : 2e-5;
    if (precision == FF_PRECISION_F16) factors = 2e-3; /* a prologue rounds the factors */
    if (precision == FF_PRECISION_BF16) factors = 1.6e-2;
    double result = type == FF_F16 ? 1e-3 : type == FF_BF16 ? 8e-3 : 0;
    return factors + result;
}

static ff_status compare(const operand *o, const char *got, ff_precision precision,
                         const char *text, ff_error *error) {
    size_t bytes = bytes_of(o);
    for (int i = 0; i < GUARD; i++)
        if ((unsigned char)got[i] != FENCE ||
            (unsigned char)got[GUARD + bytes + (size_t)i] != FENCE)
            return ff_fail(error, FF_BAD_DATA, "%s: %s: written %s its end", text, o->name,
                           (unsigned char)got[i] != FENCE ? "before" : "past");
    if (!o->output) {
        if (memcmp(got + GUARD, o->host + GUARD, bytes) == 0) return FF_OK;
        return ff_fail(error, FF_BAD_DATA, "%s: %s, which is only read, was changed", text,
                       o->name);
    }
    double squares = 0, most = tolerance(precision, o->type);
    for (size_t i = 0; i < o->count; i++) {
        double right = ff_element(o->host + GUARD, o->type, i);
        squares += right * right;
    }
    double scale = sqrt(squares / (double)o->count) + 1e-30;
    for (size_t i = 0; i < o->count; i++) {
        double right = ff_element(o->host + GUARD, o->type, i);
        double found = ff_element(got + GUARD, o->type, i);
        double other = o->other ? ff_element(o->other, o->type, i) : right;
        double beyond = fmax(found - fmax(right, other), fmin(right, other) - found);
        if (!(beyond <= most * fmax(fabs(right), scale)))
            return ff_fail(error, FF_BAD_DATA, "%s: %s[%zu of %zu] is %.9g, not %.9g", text,
                           o->name, i, o->count, found, right);
    }
    return FF_OK;
}

/* Reads everything back and compares it with the host's results of the plain loops. */
static ff_status compare_all(ff_agreement *a, ff_stream *stream, operands *o,
                             ff_precision precision, const char *text, ff_error *error) {
    const ff_device_table *table = a->device->table;
    ff_status status = FF_OK;
    for (int i = 0; i < o->count && status == FF_OK; i++) {
        size_t all = bytes_of(&o->list[i]) + 2 * GUARD;
        void *got = NULL;
        status = table->allocate_pinned(a->device, &got, all, o->list[i].name, error);
        if (status == FF_OK)
            status = table->copy(a->device, stream, got, o->list[i].device, all, error);
        if (status == FF_OK) status = table->stream_synchronize(a->device, stream, error);
        if (status == FF_OK) status = compare(&o->list[i], got, precision, text, error);
        table->release_pinned(a->device, got);
    }
    return status;
}

/* ---- convolutions ---- */

static ff_library_conv_spec draw_spec(dice *d, ff_precision precision, bool fused) {
    ff_library_conv_spec s = {.precision = precision,
                              .pass = (ff_library_pass)roll(d, 3),
                              .n = between(d, 1, 5),
                              .kernel = between(d, 1, 5),
                              .stride = between(d, 1, 2),
                              .groups = 1};
    bool eights = fused || roll(d, 2);
    s.c = eights ? 8 * between(d, 1, 9) : between(d, 1, 70);
    s.k = eights ? 8 * between(d, 1, 9) : between(d, 1, 70);
    s.pad = (int)roll(d, (uint32_t)s.kernel);
    s.h = between(d, s.kernel, 20);
    s.w = between(d, s.kernel, 20);
    if (!fused && roll(d, 4) == 0) {
        s.groups = roll(d, 2) ? s.c : between(d, 2, 4);
        s.k = s.groups * between(d, 1, 2);
        if (s.groups < s.c) s.c = s.groups * between(d, 1, 16);
    }
    if (!fused) return s;
    switch (s.pass) {
    case FF_PASS_FORWARD:
        s.epilogue = (ff_library_epilogue)between(d, FF_EPILOGUE_BIAS, FF_EPILOGUE_STATISTICS);
        if (s.epilogue == FF_EPILOGUE_STATISTICS) s.prologue = (ff_library_prologue)roll(d, 2);
        break;
    case FF_PASS_BACKWARD_DATA:
        s.epilogue = (ff_library_epilogue)between(d, FF_EPILOGUE_RELU_BACKWARD,
                                                  FF_EPILOGUE_RELU_NORM_BACKWARD);
        break;
    case FF_PASS_BACKWARD_WEIGHTS:
        s.f32_gradient = ff_precision_dtype(precision) != FF_F32 && roll(d, 2);
        if (!s.f32_gradient) s.prologue = FF_PROLOGUE_SCALE_SHIFT_RELU;
        break;
    }
    return s;
}

static ff_library_conv_arguments arguments_of(const operands *o, bool device) {
    ff_library_conv_arguments arguments = {0};
    for (int i = 0; i < o->count; i++) {
        void *at = (device ? o->list[i].device : o->list[i].host) + GUARD;
        memcpy((char *)&arguments + o->list[i].offset, &at, sizeof at);
    }
    return arguments;
}

/* On the host, at once. */
static ff_status run_plain(const ff_library_table *table, const ff_library_conv_spec *spec,
                           const ff_library_conv_arguments *arguments, ff_error *error) {
    ff_library *library;
    ff_library_conv *conv;
    char *workspace;
    FF_TRY(table->open(&library, &(ff_library_options){0}, error));
    ff_status status = table->conv_create(library, spec, &conv, error);
    if (status == FF_OK) {
        status = ff_alloc_aligned(&workspace, conv->workspace_bytes, 1, 256, "plain", error);
        if (status == FF_OK)
            status = table->conv_run(library, conv, NULL, arguments, workspace, error);
        free(workspace);
        table->conv_destroy(library, conv);
    }
    ff_library_close(&library);
    return status;
}

/* The right results into `other` and then into `host`. */
static ff_status run_both(const ff_library_conv_spec *spec, operands *o, ff_error *error) {
    const ff_library_conv_arguments plain = arguments_of(o, false);
    FF_TRY(run_plain(&ff_library_plain_unrounded, spec, &plain, error));
    for (int i = 0; i < o->count; i++) {
        operand *one = &o->list[i];
        if (!one->output) continue;
        FF_TRY(ff_alloc(&one->other, bytes_of(one), 1, one->name, error));
        memcpy(one->other, one->host + GUARD, bytes_of(one));
    }
    return run_plain(&ff_library_plain, spec, &plain, error);
}

/* Twice, into the same memory: with the new plan, and with the cached one. */
static ff_status run_conv(ff_agreement *a, ff_stream *stream, ff_library_conv *conv,
                          const operands *o, void *workspace, ff_error *error) {
    ff_library_conv_arguments arguments = arguments_of(o, true);
    void *native = a->device->table->native_stream(a->device, stream);
    for (int i = 0; i < 2; i++)
        FF_TRY(a->library->table->conv_run(a->library, conv, native, &arguments, workspace, error));
    return a->device->table->stream_synchronize(a->device, stream, error);
}

ff_status ff_agree_conv(ff_agreement *a, uint64_t trial, ff_precision precision, bool fused,
                        ff_error *error) {
    const ff_device_table *table = a->device->table;
    dice d = {.seed = a->seed, .next = trial << 32};
    ff_library_conv_spec spec = draw_spec(&d, precision, fused);
    ff_library_conv *conv;
    ff_stream *stream = NULL;
    void *workspace = NULL;
    operands o = {.count = 0};
    char text[FF_LIBRARY_CONV_TEXT + 64];
    ff_library_conv_text(&spec, text);
    FF_TRY(a->library->table->conv_create(a->library, &spec, &conv, error));
    if (!conv) {
        a->missing++;
        return FF_OK;
    }
    size_t length = strlen(text);
    snprintf(text + length, sizeof text - length, ", engine %s", conv->engine.name);
    list_operands(&o, &spec);
    ff_status status;
    FF_TRY_DONE(table->stream_create(a->device, &stream, error));
    FF_TRY_DONE(place(a, stream, &d, &o, error));
    if (conv->workspace_bytes)
        FF_TRY_DONE(
            table->allocate(a->device, &workspace, conv->workspace_bytes, "workspace", error));
    FF_TRY_DONE(run_conv(a, stream, conv, &o, workspace, error));
    FF_TRY_DONE(run_both(&spec, &o, error));
    FF_TRY_DONE(compare_all(a, stream, &o, precision, text, error));
    a->agreed++;
done:
    table->stream_destroy(a->device, stream);
    table->release(a->device, workspace);
    a->library->table->conv_destroy(a->library, conv);
    release(a, &o);
    return status;
}

/* ---- matrix products ---- */

static ff_library_gemm draw_gemm(dice *d, ff_precision precision) {
    ff_library_gemm g = {.precision = precision,
                         .m = between(d, 1, 90),
                         .n = between(d, 1, 90),
                         .k = between(d, 1, 200),
                         .transpose_a = roll(d, 2),
                         .transpose_b = roll(d, 2),
                         .alpha = gauss(d),
                         .beta = roll(d, 2) ? gauss(d) : 0,
                         .batch = between(d, 0, 3),
                         .c_type = roll(d, 2) ? FF_F32 : ff_precision_dtype(precision)};
    int gap = (int)roll(d, 2) * 8;
    g.row_a = (g.transpose_a ? g.m : g.k) + gap;
    g.row_b = (g.transpose_b ? g.k : g.n) + gap;
    g.row_c = g.n + gap;
    g.stride_a = g.row_a * (g.transpose_a ? g.k : g.m);
    g.stride_b = roll(d, 2) ? g.row_b * (g.transpose_b ? g.n : g.k) : 0;
    g.stride_c = g.row_c * g.m;
    return g;
}

ff_status ff_agree_gemm(ff_agreement *a, uint64_t trial, ff_precision precision, ff_error *error) {
    const ff_device_table *table = a->device->table;
    dice d = {.seed = a->seed, .next = trial << 32};
    ff_library_gemm g = draw_gemm(&d, precision);
    ff_dtype dtype = ff_precision_dtype(precision);
    size_t batch = g.batch ? (size_t)g.batch : 1;
    ff_stream *stream = NULL;
    ff_library *plain = NULL;
    void *workspace = NULL;
    operands o = {.count = 0};
    operand *c;
    char text[160], room[64];
    ff_status status;
    snprintf(text, sizeof text, "product %s m%d n%d k%d%s%s alpha %g beta %g batch %d to %s",
             ff_precision_name(precision), g.m, g.n, g.k, g.transpose_a ? " a'" : "",
             g.transpose_b ? " b'" : "", (double)g.alpha, (double)g.beta, g.batch,
             ff_dtype_name(g.c_type));
    add(&o, "a", 0, dtype, batch * (size_t)g.stride_a, false);
    add(&o, "b", 0, dtype,
        (g.stride_b ? batch : 1) * (size_t)(g.row_b * (g.transpose_b ? g.n : g.k)), false);
    /* Numbers, not poison: beta needs them, and the gaps must stay unchanged. */
    add(&o, "c", 0, g.c_type, batch * (size_t)g.stride_c, false);
    FF_TRY_DONE(table->stream_create(a->device, &stream, error));
    FF_TRY_DONE(place(a, stream, &d, &o, error));
    c = &o.list[2];
    FF_TRY_DONE(table->allocate(a->device, &workspace,
                                a->library->table->gemm_workspace(a->library), "workspace", error));
    g.a = o.list[0].device + GUARD, g.b = o.list[1].device + GUARD, g.c = c->device + GUARD;
    FF_TRY_DONE(a->library->table->gemm(a->library, table->native_stream(a->device, stream), &g,
                                        workspace, error));
    FF_TRY_DONE(table->stream_synchronize(a->device, stream, error));
    FF_TRY_DONE(ff_library_plain.open(&plain, &(ff_library_options){0}, error));
    g.a = o.list[0].host + GUARD, g.b = o.list[1].host + GUARD, g.c = c->host + GUARD;
    FF_TRY_DONE(ff_library_plain.gemm(plain, NULL, &g, room, error));
    c->output = true;
    FF_TRY_DONE(compare_all(a, stream, &o, precision, text, error));
    a->agreed++;
done:
    ff_library_close(&plain);
    table->stream_destroy(a->device, stream);
    table->release(a->device, workspace);
    release(a, &o);
    return status;
}
