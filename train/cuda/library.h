/* Convolutions and matrix products on a GPU, as a table of functions: what the CUDA compute table
 * leaves to NVIDIA's libraries. Two implementations: cuDNN's graph API with cuBLAS, in the CUDA
 * module (cudnn/library.h), and plain loops in the tests (tests/cuda/sim/library_plain.h). This
 * header is plain C without CUDA headers.
 *
 * Layout. Activations are channels-last, [n][h][w][c]; filters [k][kernel][kernel][c / groups]; c
 * and k are counts as stored, padding included: padding is ordinary channels whose values are zero,
 * and zero filters over zero channels keep it zero. Any count has engines; multiples of 8 have the
 * fast and the fused ones. Pointers are device memory, aligned to at least 16 bytes, and must not
 * overlap.
 *
 * Types. The precision gives the storage type of x, w, y, bias, scale and shift (all the same:
 * f32, f16 or bf16); everything is summed in f32 and rounded once. Statistics, and the batch norm's
 * own arrays, are f32.
 *
 * What exists. Every plain pass has an engine in every precision that the device computes in
 * (bf16 needs compute capability 8.0 or above). Fused graphs, true f32 ones foremost, may not:
 * conv_create then answers "none" (see there), and the caller does the pieces one after another.
 * Planned with cuDNN 9.19 for compute capability 9.0 (a card decides which of them are worth it):
 *   bias, bias + ReLU                 f16, bf16: precompiled
 *   bias + GELU                       f16, bf16: compiled at run time
 *   statistics                        f16: precompiled where c is a multiple of 8; bf16, and images
 *                                     of 3 or 4 channels: compiled at run time
 *   scale-shift-ReLU (+ statistics)   the same, but none for images
 *   scale-shift-ReLU, weight gradient f16, where c and k are multiples of 8: precompiled
 *   ReLU + norm backward              f16, where c is a multiple of 8: precompiled
 *   ReLU backward                     f16, bf16: compiled at run time
 *   16-bit weight gradient in f32     f16, bf16: compiled at run time; on 9.0 one engine, whose
 *                                     heuristics do not split its sums
 *
 * 8.0 to 12.0 have the same graphs; 7.5 has no statistics, no prologue and no norm backward. Biases
 * of f32 beside 16-bit activations have run-time engines only, hence the storage type.
 *
 * Thread rule: one thread at a time calls into a library and its convolutions; a process may have
 * several libraries, on several devices or on one, used by several threads. Everything but create,
 * destroy, open and close only enqueues into the stream and may be captured into a recording, once
 * it has run in that stream before. */
#ifndef FF_TRAIN_CUDA_LIBRARY_H
#define FF_TRAIN_CUDA_LIBRARY_H

#include "format/base/status.h"
#include "train/precision.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ff_device;

/* ---- convolutions ---- */

typedef enum ff_library_pass {
    FF_PASS_FORWARD,         /* y = conv(x, w) */
    FF_PASS_BACKWARD_DATA,   /* x = the input's gradient, from y = the output's and w */
    FF_PASS_BACKWARD_WEIGHTS /* w = the filters' gradient, from x and y = the output's gradient */
} ff_library_pass;

/* What is done to x where it is read: forward and backward weights. */
typedef enum ff_library_prologue {
    FF_PROLOGUE_NONE,
    FF_PROLOGUE_SCALE_SHIFT_RELU /* max(x * scale[c] + shift[c], 0), rounded to the storage type */
} ff_library_prologue;

/* What is done to the result before it is written. v = the sum, f32. */
typedef enum ff_library_epilogue {
    FF_EPILOGUE_NONE,
    /* Forward. */
    FF_EPILOGUE_BIAS,      /* y = v + bias[k] */
    FF_EPILOGUE_BIAS_RELU, /* y = max(v + bias[k], 0) */
    FF_EPILOGUE_BIAS_GELU, /* y = u / 2 * (1 + erf(u / sqrt 2)), u = v + bias[k] */
    /* y = v; sum[k] and square_sum[k] over (n, h, w) of v or of y as rounded: which one, the
     * engine decides. */
    FF_EPILOGUE_STATISTICS,
    /* Backward data. */
    FF_EPILOGUE_RELU_BACKWARD, /* x = relu_y > 0 ? v : 0 */
    /* For conv(relu(norm(norm_x))): x = g = v where gamma * xhat + beta > 0, else 0,
     * xhat = (norm_x - mean) * inv_std; dgamma = sum of g * xhat, dbeta = sum of g; and the
     * factors with which norm_x's gradient is
     *   gradient_scale[c] * g + input_scale[c] * norm_x + offset[c]. */
    FF_EPILOGUE_RELU_NORM_BACKWARD
} ff_library_epilogue;

typedef struct ff_library_conv_spec {
    ff_library_pass pass;
    ff_precision precision;
    int n, h, w, c; /* of x */
    int k;          /* filters: channels of y */
    int kernel, stride, pad;
    int groups; /* at least 1; divides c and k */
    ff_library_prologue prologue;
    ff_library_epilogue epilogue;
    bool f32_gradient; /* backward weights: w is f32 where the storage type has 16 bits */
} ff_library_conv_spec;

static inline int ff_library_conv_out(const ff_library_conv_spec *spec, int size) {
    return (size + 2 * spec->pad - spec->kernel) / spec->stride + 1;
}

/* The spec as text, one word a property: "forward f16 n512 h32 w32 c64 k64 kernel3 stride1 pad1
 * statistics". Part of a plan's key, and of messages. */
enum { FF_LIBRARY_CONV_TEXT = 192 };
void ff_library_conv_text(const ff_library_conv_spec *spec, char text[FF_LIBRARY_CONV_TEXT]);

/* Whether something is done to what it reads or writes: then it may have no engine. */
static inline bool ff_library_conv_fused(const ff_library_conv_spec *spec) {
    return spec->prologue != FF_PROLOGUE_NONE || spec->epilogue != FF_EPILOGUE_NONE ||
           spec->f32_gradient;
}

bool ff_library_conv_same(const ff_library_conv_spec *a, const ff_library_conv_spec *b);

/* Bytes of x, w and y of a convolution, as stored. */
typedef struct ff_library_conv_sizes {
    size_t x, w, y;
} ff_library_conv_sizes;
ff_library_conv_sizes ff_library_conv_bytes(const ff_library_conv_spec *spec);

/* What was planned, for reports. */
typedef struct ff_library_engine {
    char name[64];     /* as the library numbers it, with its knobs; "plain" for the loops */
    int found;         /* engines that were offered and finished a plan, or were in the cache */
    bool tensor_cores; /* multiplies on tensor cores */
    bool runtime_compiled;
    bool deterministic; /* the same bits in every run */
    bool timed;         /* chosen by timing; else by the library's heuristics */
    bool cached;        /* from the plan cache */
    uint64_t ns;        /* one run, the fastest that was measured; 0 where it was not timed */
} ff_library_engine;

/* What choosing engines came to, for reports. */
typedef struct ff_library_tuning {
    int convolutions; /* planned: each pass and fused graph once, however many layers have it */
    int cached;       /* of them: the choice came from the plan cache */
    int timed;        /* engines, with their knobs, that were timed */
    int compiled;     /* engines that were compiled at run time */
    int reused;       /* and those that were found compiled in the plan cache */
    int failed;       /* engines that were offered and could not be made ready */
    double timing_seconds, compile_seconds;
} ff_library_tuning;

/* A planned convolution; implementations begin with this. */
typedef struct ff_library_conv {
    ff_library_conv_spec spec;
    size_t workspace_bytes; /* of every run; 256-byte aligned; shared with others in one stream */
    ff_library_engine engine;
} ff_library_conv;

/* What a run reads and writes; what the spec does not use is NULL. The one of x, w, y that the
 * pass makes is written. [n][h][w][c] etc. as above; no size is 0. */
typedef struct ff_library_conv_arguments {
    void *x, *w, *y;
    const void *bias;          /* [k] storage type */
    const void *scale, *shift; /* [c] storage type: the prologue */
    float *sum, *square_sum;   /* [k]: FF_EPILOGUE_STATISTICS; written, not added to */
    const void *relu_y;        /* [n][h][w][c]: FF_EPILOGUE_RELU_BACKWARD */
    /* FF_EPILOGUE_RELU_NORM_BACKWARD: norm_x [n][h][w][c], the others [c]. */
    const void *norm_x;
    const float *mean, *inv_std, *gamma, *beta;
    float *dgamma, *dbeta;
    float *gradient_scale, *input_scale, *offset;
} ff_library_conv_arguments;

/* ---- matrix products ---- */

/* Row-major: c[m][n] = alpha * op(a)[m][k] op(b)[k][n] + beta * c, for each of `batch` matrices.
 * a is stored [m][k], or [k][m] where transpose_a; b [k][n], or [n][k] where transpose_b. c is not
 * read where beta is 0. */
typedef struct ff_library_gemm {
    int m, n, k;
    ff_precision precision; /* a's and b's type, and the rounding of factors */
    ff_dtype c_type;        /* FF_F32 or the precision's own type */
    bool transpose_a, transpose_b;
    float alpha, beta;
    int64_t row_a, row_b, row_c;          /* elements from a stored row to the next; 0 = no gap */
    int batch;                            /* matrices; 0 counts as 1 */
    int64_t stride_a, stride_b, stride_c; /* elements from a matrix to the next; 0 = the same one */
    const void *a, *b;
    void *c;
} ff_library_gemm;

/* ---- the table ---- */

typedef struct ff_library ff_library;

typedef struct ff_library_options {
    /* The device it computes on; must outlive the library. NULL = plan only, for the device that
     * device_json describes (see tests/gpu/README.md): nothing of it can be run. */
    struct ff_device *device;
    const char *device_json; /* text, not a path; NULL with a device */
    bool deterministic;      /* no engine whose results vary between runs, and no timing */
    /* Engines that need more are not taken while others exist; 0 = 1 GiB. */
    size_t workspace_limit;
    /* Seconds that all conv_create calls together may time engines; 0 = none, heuristics' order. */
    double timing_seconds;
    double compile_seconds; /* that they may compile engines in order to time them, besides */
    int expected_convs;     /* distinct ones going to be created, to share the time; 0 = unknown */
    /* With device_json and a cache folder: every engine that a card would time and would have to
     * compile first is compiled and kept, in its first configuration. */
    bool compile_ahead;
    /* With device_json: an engine that would have to be compiled is taken only where a convolution
     * has no other, so that planning takes no time; a fused graph that has no other has none. */
    bool compile_nothing;
    /* Folder of the plan cache; NULL = none is read or written. */
    const char *cache_folder;
    /* Receives one line, without a line end, where something is worth telling (a cache rebuilt, a
     * fused graph that is missing); NULL = nobody is told. */
    void (*note)(void *context, const char *line);
    /* Is called before each engine that is compiled and after each convolution; optional. */
    void (*progress)(void *context, const ff_library_tuning *tuning);
    void *note_context; /* of both */
    ff_library_tuning
        *tuning; /* the caller's, outlives the library; is added to; NULL = nobody's */
    /* Is told of every conv_create that FF_OK answers, conv NULL where there is no engine;
     * optional. */
    void (*planned)(void *context, const ff_library_conv_spec *spec, const ff_library_conv *conv);
    void *planned_context;
} ff_library_options;

/* A line for options->note. */
void ff_library_note(const ff_library_options *options, const char *format, ...) FF_PRINTF(2, 3);

typedef struct ff_library_table {
    const char *name; /* "cudnn", "plain" */

    /* Copies the options' strings. On failure *library = NULL. */
    ff_status (*open)(ff_library **library, const ff_library_options *options, ff_error *error);
    /* After its convolutions. NULL is accepted. */
    void (*close)(ff_library *library);

    /* FF_OK with *conv = NULL: this fused graph has no engine here; `error` then holds the sentence
     * that says why. A plain pass (no prologue, epilogue or f32_gradient) without an engine is
     * FF_FAILED. May allocate and wait, where engines are timed. */
    ff_status (*conv_create)(ff_library *library, const ff_library_conv_spec *spec,
                             ff_library_conv **conv, ff_error *error);
    void (*conv_destroy)(ff_library *library, ff_library_conv *conv); /* NULL is accepted */
    /* Optional: gives back what choosing engines took, until more are created. */
    void (*settle)(ff_library *library);
    /* stream: what the device table's native_stream gave. workspace may be NULL where
     * workspace_bytes is 0. */
    ff_status (*conv_run)(ff_library *library, ff_library_conv *conv, void *stream,
                          const ff_library_conv_arguments *arguments, void *workspace,
                          ff_error *error);

    /* Bytes of the workspace that every gemm call is given; 256-byte aligned. One stream at a time
     * uses it. */
    size_t (*gemm_workspace)(const ff_library *library);
    ff_status (*gemm)(ff_library *library, void *stream, const ff_library_gemm *gemm,
                      void *workspace, ff_error *error);
} ff_library_table;

/* Implementations begin with this. */
struct ff_library {
    const ff_library_table *table;
};

/* NULL is accepted; *library = NULL. */
static inline void ff_library_close(ff_library **library) {
    if (*library) (*library)->table->close(*library);
    *library = NULL;
}

#endif
