/* Muon on the device (train/compute/optimizers/muon.h): own kernels around the library's matrix
 * products.
 */
#include "train/compute/cuda/compute_update.h"

#include "format/base/memory.h"
#include "train/compute/optimizers/muon.h"

#include <stdlib.h>

/* Banks of one shape: their products are one call. */
typedef struct batch {
    int rows, columns, count;
    /* x | next | a | b, each [count]; x, next: [rows][columns]; a, b: [least][least], where least
     * is the smaller of rows and columns */
    char *memory, *x, *next, *a, *b;
    size_t matrix, square; /* bytes from a bank's matrix to the next bank's */
} batch;

/* A stream in which batches are orthogonalised, with the library's workspace. */
typedef struct branch {
    ff_stream *stream;
    ff_event *done;
    ff_cuda_queue queue; /* of the stream */
    void *workspace;
} branch;

struct ff_cuda_muon_banks {
    ff_cuda_muon *banks; /* [count], on the device */
    double *norms;       /* [count][2] */
    void *sums;          /* ff_cuda_muon_begin's scratch */
    int count;
    uint64_t most;          /* elements of the largest bank */
    ff_precision precision; /* of the products */
    batch *batches;
    int batch_count;
    ff_event *begun; /* in the compute's stream; the branches wait for it */
    branch branches[FF_CUDA_MUON_BRANCHES];
    int branch_count;
};

/* ---- opening ---- */

static ff_cuda_muon bank_of(const ff_update_segment *from, const ff_cuda_segment *segment,
                            const ff_cuda_group *groups, const ff_cuda_update *tables) {
    const ff_conv_shape *s = &from->conv->shape;
    ff_cuda_muon bank = {
        .rows = s->output.c,
        .columns =
            (size_t)s->kernel * (size_t)s->kernel * (size_t)ff_tensor_padded_channels(&s->input),
        .segment = *segment,
        .group = groups[segment->group],
        .rates = tables->rates,
        .rate_steps = tables->rate_steps,
        .control = tables->control,
        .scale = tables->scale,
    };
    bank.segment.count =
        (uint64_t)bank.rows * bank.columns; /* padding rows are zero and stay zero */
    return bank;
}

/* The batch of a bank; a new one for the first of its shape. */
static batch *batch_of(ff_cuda_muon_banks *banks, const ff_cuda_muon *bank) {
    const int columns = (int)bank->columns;
    batch *b = banks->batches;
    while (b < banks->batches + banks->batch_count &&
           (b->rows != bank->rows || b->columns != columns))
        b++;
    if (b == banks->batches + banks->batch_count) {
        banks->batch_count++;
        *b = (batch){.rows = bank->rows, .columns = columns};
    }
    return b;
}

static ff_status open_batch(batch *b, ff_cuda_compute *compute, size_t element, ff_error *error) {
    const size_t rows = (size_t)b->rows, columns = (size_t)b->columns, count = (size_t)b->count;
    const size_t least = rows < columns ? rows : columns;
    b->matrix = ff_align_u64(rows * columns * element, 256);
    b->square = ff_align_u64(least * least * element, 256);
    FF_TRY(ff_compute_allocate(&compute->base, &b->memory, count * 2 * (b->matrix + b->square),
                               "Muon's matrices", error));
    b->x = b->memory;
    b->next = b->x + count * b->matrix;
    b->a = b->next + count * b->matrix;
    b->b = b->a + count * b->square;
    return FF_OK;
}

static ff_status open_branch(branch *b, ff_cuda_compute *compute, ff_error *error) {
    ff_device *device = compute->base.device;
    FF_TRY(device->table->stream_create(device, &b->stream, error));
    FF_TRY(device->table->event_create(device, &b->done, false, error));
    b->queue = compute->queue;
    b->queue.stream = device->table->native_stream(device, b->stream);
    return ff_compute_allocate(&compute->base, &b->workspace,
                               compute->table->gemm_workspace(compute->library),
                               "Muon's workspaces", error);
}

/* Memory and streams for the host's `banks`, and their table on the device. */
static ff_status open_all(ff_cuda_muon_banks *all, ff_cuda_compute *compute, ff_cuda_muon *banks,
                          ff_error *error) {
    ff_compute *base = &compute->base;
    const uint64_t count = (uint64_t)all->count, bytes = count * sizeof *banks;
    const ff_dtype dtype = ff_precision_dtype(all->precision);
    const char *what = "the tables of the update";
    for (int i = 0; i < all->batch_count; i++) {
        FF_TRY(open_batch(&all->batches[i], compute, ff_dtype_bytes(dtype), error));
        all->batches[i].count = 0; /* counted again below */
    }
    FF_TRY(ff_compute_allocate(base, &all->banks, bytes, what, error));
    FF_TRY(ff_compute_allocate(base, &all->norms, count * 2 * sizeof *all->norms, what, error));
    FF_TRY(ff_compute_allocate(base, &all->sums,
                               ff_cuda_muon_scratch(compute->queue.multiprocessors, all->count),
                               what, error));
    for (int i = 0; i < all->count; i++) {
        batch *b = batch_of(all, &banks[i]);
        const size_t at = (size_t)b->count++ * b->matrix;
        banks[i].dtype = dtype;
        banks[i].x = b->x + at;
        banks[i].next = b->next + at;
        banks[i].last = FF_MUON_STEPS % 2 ? banks[i].next : banks[i].x;
        banks[i].norms = all->norms + 2 * (size_t)i;
    }
    ff_compute_write(base, all->banks, banks, bytes);
    FF_TRY(base->device->table->event_create(base->device, &all->begun, false, error));
    all->branch_count =
        all->batch_count < FF_CUDA_MUON_BRANCHES ? all->batch_count : FF_CUDA_MUON_BRANCHES;
    for (int i = 0; i < all->branch_count; i++)
        FF_TRY(open_branch(&all->branches[i], compute, error));
    return ff_compute_check(base, error);
}

ff_status ff_cuda_muon_create(ff_cuda_muon_banks **out, ff_cuda_compute *compute,
                              const ff_update_spec *spec, const ff_cuda_segment *segments,
                              const ff_cuda_group *groups, const ff_cuda_update *tables,
                              ff_error *error) {
    ff_cuda_muon_banks *all;
    ff_cuda_muon *banks;
    uint64_t count = 0;
    *out = NULL;
    for (int i = 0; i < spec->segment_count; i++) count += spec->segments[i].rule == FF_RULE_MUON;
    if (!count) return FF_OK;
    FF_TRY(ff_alloc(&all, 1, sizeof *all, "Muon", error));
    *out = all;
    /* The products of a 16-bit net are in bf16, because they need its range. */
    const bool in_f32 = compute->base.dtype == FF_F32;
    all->precision = in_f32 ? compute->base.precision : FF_PRECISION_BF16;
    FF_TRY(ff_alloc(&all->batches, count, sizeof *all->batches, "Muon", error));
    FF_TRY(ff_alloc(&banks, count, sizeof *banks, "Muon", error));
    for (int i = 0; i < spec->segment_count; i++) {
        if (spec->segments[i].rule != FF_RULE_MUON) continue;
        ff_cuda_muon *bank = &banks[all->count];
        *bank = bank_of(&spec->segments[i], &segments[all->count++], groups, tables);
        batch_of(all, bank)->count++;
        if (bank->segment.count > all->most) all->most = bank->segment.count;
    }
    const ff_status status = open_all(all, compute, banks, error);
    free(banks);
    return status;
}

void ff_cuda_muon_destroy(ff_compute *compute, ff_cuda_muon_banks *banks) {
    if (!banks) return;
    const ff_device_table *table = compute->device->table;
    for (int i = 0; i < banks->branch_count; i++) {
        const branch *b = &banks->branches[i];
        table->stream_destroy(compute->device, b->stream); /* waits */
        table->event_destroy(compute->device, b->done);
        if (b->workspace) ff_compute_release(compute, b->workspace);
    }
    table->event_destroy(compute->device, banks->begun);
    for (int i = 0; i < banks->batch_count; i++)
        if (banks->batches[i].memory) ff_compute_release(compute, banks->batches[i].memory);
    void *memory[] = {banks->banks, banks->norms, banks->sums};
    for (int i = 0; i < 3; i++)
        if (memory[i]) ff_compute_release(compute, memory[i]);
    free(banks->batches);
    free(banks);
}

/* ---- a step ---- */

static void product(ff_cuda_compute *compute, const branch *b, const ff_library_gemm *gemm) {
    compute->table->gemm(compute->library, b->queue.stream, gemm, b->workspace,
                         ff_compute_error(&compute->base));
}

/* One Newton-Schulz step from x to y: A = X X', B = b A + c A A, Y = a X + B X; for X taller than
 * wide: A = X' X and Y = a X + X B. copied: y is x already. */
static void iterate(ff_cuda_compute *compute, const branch *where, ff_precision precision,
                    const batch *of, const void *x, void *y, bool copied) {
    const ff_dtype dtype = ff_precision_dtype(precision);
    const bool tall = of->rows > of->columns;
    const int least = tall ? of->columns : of->rows;
    const size_t element = ff_dtype_bytes(dtype), count = (size_t)of->count;
    const int64_t matrix = (int64_t)(of->matrix / element),
                  square = (int64_t)(of->square / element);
    ff_library_gemm gemm = {
        .m = least,
        .n = least,
        .k = tall ? of->rows : of->columns,
        .precision = precision,
        .c_type = dtype,
        .transpose_a = tall,
        .transpose_b = !tall,
        .alpha = 1,
        .batch = of->count,
        .stride_a = matrix,
        .stride_b = matrix,
        .stride_c = square,
        .a = x,
        .b = x,
        .c = of->a,
    };
    product(compute, where, &gemm);
    ff_cuda_keep(&compute->base,
                 ff_cuda_muon_copy(&where->queue, of->a, of->b, count * of->square, x, y,
                                   copied ? 0 : count * of->matrix),
                 "Muon's copies");
    gemm.k = least;
    gemm.transpose_a = gemm.transpose_b = false;
    gemm.alpha = FF_MUON_C;
    gemm.beta = FF_MUON_B;
    gemm.stride_a = gemm.stride_b = square;
    gemm.a = gemm.b = of->a;
    gemm.c = of->b;
    product(compute, where, &gemm);
    gemm.m = of->rows;
    gemm.n = of->columns;
    gemm.alpha = 1;
    gemm.beta = FF_MUON_A;
    gemm.stride_a = tall ? matrix : square;
    gemm.stride_b = tall ? square : matrix;
    gemm.stride_c = matrix;
    gemm.a = tall ? x : of->b;
    gemm.b = tall ? of->b : x;
    gemm.c = y;
    product(compute, where, &gemm);
}

static void orthogonalise(ff_cuda_compute *compute, const branch *where, ff_precision precision,
                          const batch *of) {
    void *x = of->x, *y = of->next;
    for (int step = 0; step < FF_MUON_STEPS; step++) {
        iterate(compute, where, precision, of, x, y, step == 0);
        void *kept = x;
        x = y;
        y = kept;
    }
}

void ff_cuda_muon_enqueue(ff_cuda_compute *compute, const ff_cuda_muon_banks *banks) {
    ff_device *device = compute->base.device;
    const ff_device_table *table = device->table;
    ff_stream *stream = compute->base.stream;
    ff_cuda_keep(
        &compute->base,
        ff_cuda_muon_begin(&compute->queue, banks->banks, banks->count, banks->most, banks->sums),
        "Muon's beginning");
    table->event_record(device, banks->begun, stream, ff_compute_error(&compute->base));
    for (int i = 0; i < banks->branch_count; i++)
        table->stream_wait(device, banks->branches[i].stream, banks->begun,
                           ff_compute_error(&compute->base));
    for (int i = 0; i < banks->batch_count; i++)
        orthogonalise(compute, &banks->branches[i % banks->branch_count], banks->precision,
                      &banks->batches[i]);
    for (int i = 0; i < banks->branch_count; i++) {
        const branch *b = &banks->branches[i];
        table->event_record(device, b->done, b->stream, ff_compute_error(&compute->base));
        table->stream_wait(device, stream, b->done, ff_compute_error(&compute->base));
    }
    ff_cuda_keep(&compute->base,
                 ff_cuda_muon_end(&compute->queue, banks->banks, banks->count, banks->most),
                 "Muon's end");
}
