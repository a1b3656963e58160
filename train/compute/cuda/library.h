/* Convolutions and matrix products on a GPU, as a table of functions: the operations that the CUDA
 * compute table leaves to NVIDIA's libraries. Two implementations: cuDNN's graph API with cuBLAS,
 * in the CUDA module (cudnn/library.h), and plain loops in the tests
 * (tests/cuda/sim/library_plain.h). This header is plain C without CUDA headers.
 *
 * Layout. Activations are channels-last, [n][h][w][c]; filters [k][kernel][kernel][c / groups]. c
 * and k are counts as stored, padding included: padding is normal channels with zero values, and
 * zero filters over zero channels keep these values zero. Engines exist for any count; fast and
 * fused engines exist for multiples of 8. Pointers are device memory, aligned to at least 16 bytes,
 * and must not overlap.
 *
 * Types. The precision determines the storage type of x, w, y, bias, scale and shift (f32, f16 or
 * bf16 for all); sums are in f32 and rounded once. Statistics and the batch norm's own arrays are
 * f32.
 *
 * What exists. Every plain pass has an engine in every precision that the device supports (bf16
 * needs compute capability 8.0 or above). Fused graphs, especially in full f32, may not have an
 * engine: conv_create then returns no convolution (see there), and the caller runs the operations
 * separately. Planned with cuDNN 9.19 for compute capability 9.0 (timing on a GPU decides which are
 * used):
 *   bias, bias + ReLU                 f16, bf16: precompiled
 *   bias + GELU                       f16, bf16: compiled at run time
 *   statistics                        f16: precompiled if c is a multiple of 8; bf16, and images
 *                                     of 3 or 4 channels: compiled at run time
 *   scale-shift-ReLU (+ statistics)   the same, except that images have no engine
 *   scale-shift-ReLU, weight gradient f16, if c and k are multiples of 8: precompiled
 *   ReLU + norm backward              f16, if c is a multiple of 8: precompiled
 *   ReLU backward                     f16, bf16: compiled at run time
 *   16-bit weight gradient in f32     f16, bf16: compiled at run time; on 9.0 one engine, whose
 *                                     heuristics do not split its sums
 *
 * 8.0 to 12.0 have the same graphs; 7.5 has no statistics, no prologue and no norm backward. f32
 * biases with 16-bit activations have only engines compiled at run time; therefore biases have the
 * storage type.
 *
 * Thread rule: one thread at a time calls into a library and its convolutions; a process may have
 * several libraries, on several devices or on one, used by several threads. All functions except
 * create, destroy, open and close only enqueue into the stream and may be captured in a graph,
 * after one run in that stream. */
#ifndef FF_TRAIN_CUDA_LIBRARY_H
#define FF_TRAIN_CUDA_LIBRARY_H

#include "format/base/status.h"
#include "train/compute/precision.h"

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

/* Applied to x as it is read: forward and backward weights. */
typedef enum ff_library_prologue {
    FF_PROLOGUE_NONE,
    FF_PROLOGUE_SCALE_SHIFT_RELU /* max(x * scale[c] + shift[c], 0), rounded to the storage type */
} ff_library_prologue;

/* Applied to the result before it is written. v = the sum, f32. */
typedef enum ff_library_epilogue {
    FF_EPILOGUE_NONE,
    /* Forward. */
    FF_EPILOGUE_BIAS,      /* y = v + bias[k] */
    FF_EPILOGUE_BIAS_RELU, /* y = max(v + bias[k], 0) */
    FF_EPILOGUE_BIAS_GELU, /* y = u / 2 * (1 + erf(u / sqrt 2)), u = v + bias[k] */
    /* y = v; sum[k] and square_sum[k] over (n, h, w) of v or of the rounded y: engines differ. */
    FF_EPILOGUE_STATISTICS,
    /* Backward data. */
    FF_EPILOGUE_RELU_BACKWARD, /* x = relu_y > 0 ? v : 0 */
    /* For conv(relu(norm(norm_x))): x = g; g = v where gamma * xhat + beta > 0, else 0; xhat =
     * (norm_x - mean) * inv_std; dgamma = sum of g * xhat, dbeta = sum of g; and the factors of
     * norm_x's gradient:
     *   gradient_scale[c] * g + input_scale[c] * norm_x + offset[c].
     * The sums are over g or over x, which is g rounded: engines differ. */
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
    bool f32_gradient; /* backward weights: w is f32 if the storage type is 16-bit */
} ff_library_conv_spec;

static inline int ff_library_conv_out(const ff_library_conv_spec *spec, int size) {
    return (size + 2 * spec->pad - spec->kernel) / spec->stride + 1;
}

/* The spec as text, one word per property: "forward f16 n512 h32 w32 c64 k64 kernel3 stride1 pad1
 * statistics". The text is part of a plan's key and of messages. */
enum { FF_LIBRARY_CONV_TEXT = 192 };
void ff_library_conv_text(const ff_library_conv_spec *spec, char text[FF_LIBRARY_CONV_TEXT]);

/* Whether the convolution is fused with another operation, and so may not have an engine. */
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

/* The planned engine, for reports. */
typedef struct ff_library_engine {
    char name[64];     /* the library's number, with its knobs; "plain" for the loops */
    int found;         /* engines offered that could be built, or were in the cache */
    bool tensor_cores; /* uses tensor cores */
    bool runtime_compiled;
    bool deterministic; /* the same bits in every run */
    bool timed;         /* chosen by timing; else by the library's heuristics */
    bool cached;        /* from the plan cache */
    uint64_t ns;        /* one run, the fastest measured; 0 = not timed */
} ff_library_engine;

/* The results of choosing engines, for reports. */
typedef struct ff_library_tuning {
    int convolutions; /* planned: each distinct pass and fused graph once */
    int cached;       /* choices from the plan cache among them */
    int timed;        /* engines, with their knobs, timed */
    int compiled;     /* engines compiled at run time */
    int reused;       /* engines found compiled in the plan cache */
    int failed;       /* engines offered that could not be built */
    double timing_seconds, compile_seconds;
} ff_library_tuning;

/* A planned convolution; implementations begin with this. */
typedef struct ff_library_conv {
    ff_library_conv_spec spec;
    size_t workspace_bytes; /* of every run; 256-byte aligned; may be shared in one stream */
    ff_library_engine engine;
} ff_library_conv;

/* The arguments of a run; those that the spec does not use are NULL. The pass writes one of x, w,
 * y. [n][h][w][c] etc. as above; no size is 0. */
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

/* Row-major: c[m][n] = alpha * op(a)[m][k] op(b)[k][n] + beta * c, for each of `batch` matrices. a
 * is stored [m][k], or [k][m] if transpose_a; b [k][n], or [n][k] if transpose_b. c is not read if
 * beta is 0. */
typedef struct ff_library_gemm {
    int m, n, k;
    ff_precision precision; /* the type of a and b, and the rounding of factors */
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
    /* The device that the library computes on; must outlive the library. NULL = only plan, for the
     * device that device_json describes (see tests/gpu/README.md): nothing can be run. */
    struct ff_device *device;
    const char *device_json; /* text, not a path; NULL with a device */
    bool deterministic;      /* no engine whose results vary between runs, and no timing */
    /* Engines that need more memory are chosen only if there is no other engine; 0 = 1 GiB. */
    size_t workspace_limit;
    /* Seconds for timing engines in all conv_create calls together; 0 = no timing, heuristics'
     * order. */
    double timing_seconds;
    double compile_seconds; /* for compiling engines to be timed, in addition */
    int expected_convs; /* distinct convolutions to be created, to divide the time; 0 = unknown */
    /* With device_json and a cache folder: every engine that a GPU would time and would have to
     * compile first is compiled and cached, in its first configuration. */
    bool compile_ahead;
    /* An engine that would have to be compiled, and is not in the cache, is chosen only if a plain
     * convolution has no other engine, so that planning is fast; fused graphs then do without an
     * engine. */
    bool compile_nothing;
    /* Folder of the plan cache; NULL = no cache. */
    const char *cache_folder;
    /* Called with one line, without a newline, for anything to be reported (a cache rebuilt, a
     * missing fused graph); optional. */
    void (*note)(void *context, const char *line);
    /* Called before each engine is compiled and after each convolution; optional. */
    void (*progress)(void *context, const ff_library_tuning *tuning);
    void *note_context;        /* of `note` and `progress` */
    ff_library_tuning *tuning; /* results are added; must outlive the library; optional */
    /* Called for every conv_create that returns FF_OK, with conv NULL if there is no engine;
     * optional. */
    void (*planned)(void *context, const ff_library_conv_spec *spec, const ff_library_conv *conv);
    void *planned_context;
} ff_library_options;

/* Calls options->note, if not NULL. */
void ff_library_note(const ff_library_options *options, const char *format, ...) FF_PRINTF(2, 3);

typedef struct ff_library_table {
    const char *name; /* "cudnn", "plain" */

    /* Copies the options' strings. On failure *library = NULL. */
    ff_status (*open)(ff_library **library, const ff_library_options *options, ff_error *error);
    /* Destroy its convolutions first. NULL is accepted. */
    void (*close)(ff_library *library);

    /* FF_OK with *conv = NULL: this fused graph has no engine; `error` then has the reason. A plain
     * pass (no prologue, epilogue or f32_gradient) without an engine is FF_FAILED. May allocate and
     * wait, when engines are timed. */
    ff_status (*conv_create)(ff_library *library, const ff_library_conv_spec *spec,
                             ff_library_conv **conv, ff_error *error);
    void (*conv_destroy)(ff_library *library, ff_library_conv *conv); /* NULL is accepted */
    /* Optional: frees the memory used for choosing engines, until more convolutions are created. */
    void (*settle)(ff_library *library);
    /* stream: from the device table's native_stream. workspace may be NULL if workspace_bytes is
     * 0. */
    ff_status (*conv_run)(ff_library *library, ff_library_conv *conv, void *stream,
                          const ff_library_conv_arguments *arguments, void *workspace,
                          ff_error *error);

    /* Bytes of the workspace for every gemm call; 256-byte aligned; used by one stream at a time.
     */
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
