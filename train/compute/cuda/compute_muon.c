/* Muon on the device (train/compute/optimizers/muon.h): own kernels around the library's matrix
 * products.
 */
#include "train/compute/cuda/compute_update.h"

#include "format/base/memory.h"
#include "train/compute/optimizers/muon.h"

#include <stdlib.h>

/* A stream in which filter banks are updated, with its memory. */
typedef struct branch {
    ff_stream *stream;
    ff_event *done;
    ff_cuda_queue queue; /* of the stream */
    /* norms | partial sums | X | its next | A | B | the library's workspace; X: [rows][columns] and
     * A, B: [least][least] of the branch's largest bank */
    char *memory;
    size_t sums, x, next, a, b, workspace; /* offsets */
    size_t elements, squares;              /* of the largest bank */
} branch;

struct ff_cuda_muon_banks {
    ff_cuda_muon *banks;
    int count;
    ff_precision precision; /* of the products */
    ff_event *begun;        /* in the compute's stream; the branches wait for it */
    branch branches[FF_CUDA_MUON_BRANCHES];
    int branch_count;
};

/* The branch of a bank. */
static int branch_of(const ff_cuda_muon_banks *banks, int bank) {
    return bank % banks->branch_count;
}

static size_t least_side(const ff_cuda_muon *bank) {
    return (size_t)bank->rows < bank->columns ? (size_t)bank->rows : bank->columns;
}

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

static ff_status open_branch(branch *b, ff_cuda_compute *compute, ff_precision precision,
                             ff_error *error) {
    ff_device *device = compute->base.device;
    const size_t element = ff_dtype_bytes(ff_precision_dtype(precision));
    const size_t matrix = ff_align_u64(b->elements * element, 256);
    const size_t square = ff_align_u64(b->squares * element, 256);
    FF_TRY(device->table->stream_create(device, &b->stream, error));
    FF_TRY(device->table->event_create(device, &b->done, false, error));
    b->queue = compute->queue;
    b->queue.stream = device->table->native_stream(device, b->stream);
    b->sums = 256;
    b->x = b->sums + ff_align_u64(ff_cuda_muon_scratch(compute->queue.multiprocessors), 256);
    b->next = b->x + matrix;
    b->a = b->next + matrix;
    b->b = b->a + square;
    b->workspace = b->b + square;
    return ff_compute_allocate(&compute->base, &b->memory,
                               b->workspace + compute->table->gemm_workspace(compute->library),
                               "Muon's matrices", error);
}

static ff_status open_branches(ff_cuda_muon_banks *banks, ff_cuda_compute *compute,
                               ff_error *error) {
    FF_TRY(compute->base.device->table->event_create(compute->base.device, &banks->begun, false,
                                                     error));
    for (int i = 0; i < banks->branch_count; i++)
        FF_TRY(open_branch(&banks->branches[i], compute, banks->precision, error));
    for (int i = 0; i < banks->count; i++) {
        const branch *b = &banks->branches[branch_of(banks, i)];
        banks->banks[i].dtype = ff_precision_dtype(banks->precision);
        banks->banks[i].norms = (double *)(void *)b->memory;
        banks->banks[i].x = b->memory + b->x;
        banks->banks[i].next = b->memory + b->next;
    }
    return FF_OK;
}

ff_status ff_cuda_muon_create(ff_cuda_muon_banks **out, ff_cuda_compute *compute,
                              const ff_update_spec *spec, const ff_cuda_segment *segments,
                              const ff_cuda_group *groups, const ff_cuda_update *tables,
                              ff_error *error) {
    ff_cuda_muon_banks *banks;
    int count = 0;
    *out = NULL;
    for (int i = 0; i < spec->segment_count; i++) count += spec->segments[i].rule == FF_RULE_MUON;
    if (!count) return FF_OK;
    FF_TRY(ff_alloc(&banks, 1, sizeof *banks, "Muon", error));
    *out = banks;
    /* The products of a 16-bit net are in bf16, because they need its range. */
    const bool in_f32 = compute->base.dtype == FF_F32;
    banks->precision = in_f32 ? compute->base.precision : FF_PRECISION_BF16;
    banks->branch_count = count < FF_CUDA_MUON_BRANCHES ? count : FF_CUDA_MUON_BRANCHES;
    FF_TRY(ff_alloc(&banks->banks, (uint64_t)count, sizeof *banks->banks, "Muon", error));
    for (int i = 0; i < spec->segment_count; i++) {
        if (spec->segments[i].rule != FF_RULE_MUON) continue;
        ff_cuda_muon *bank = &banks->banks[banks->count];
        branch *b = &banks->branches[branch_of(banks, banks->count)];
        *bank = bank_of(&spec->segments[i], &segments[banks->count], groups, tables);
        banks->count++;
        const size_t least = least_side(bank);
        if (bank->segment.count > b->elements) b->elements = bank->segment.count;
        if (least * least > b->squares) b->squares = least * least;
    }
    return open_branches(banks, compute, error);
}

void ff_cuda_muon_destroy(ff_compute *compute, ff_cuda_muon_banks *banks) {
    if (!banks) return;
    const ff_device_table *table = compute->device->table;
    for (int i = 0; i < banks->branch_count; i++) {
        const branch *b = &banks->branches[i];
        table->stream_destroy(compute->device, b->stream); /* waits */
        table->event_destroy(compute->device, b->done);
        if (b->memory) ff_compute_release(compute, b->memory);
    }
    table->event_destroy(compute->device, banks->begun);
    free(banks->banks);
    free(banks);
}

static void product(ff_cuda_compute *compute, const branch *b, const ff_library_gemm *gemm) {
    compute->table->gemm(compute->library, b->queue.stream, gemm, b->memory + b->workspace,
                         ff_compute_error(&compute->base));
}

/* One Newton-Schulz step from x to y: A = X X', B = b A + c A A, Y = a X + B X; for X taller than
 * wide: A = X' X and Y = a X + X B. copied: y is x already. */
static void iterate(ff_cuda_compute *compute, const branch *where, ff_precision precision,
                    const ff_cuda_muon *bank, const void *x, void *y, bool copied) {
    const int rows = bank->rows, columns = (int)bank->columns;
    const bool tall = rows > columns;
    const int least = tall ? columns : rows;
    char *a = where->memory + where->a, *b = where->memory + where->b;
    ff_library_gemm gemm = {
        .m = least,
        .n = least,
        .k = tall ? rows : columns,
        .precision = precision,
        .c_type = bank->dtype,
        .transpose_a = tall,
        .transpose_b = !tall,
        .alpha = 1,
        .a = x,
        .b = x,
        .c = a,
    };
    product(compute, where, &gemm);
    ff_cuda_keep(&compute->base, ff_cuda_muon_copy(&where->queue, bank, a, b, x, copied ? NULL : y),
                 "Muon's copies");
    gemm.k = least;
    gemm.transpose_a = gemm.transpose_b = false;
    gemm.alpha = FF_MUON_C;
    gemm.beta = FF_MUON_B;
    gemm.a = gemm.b = a;
    gemm.c = b;
    product(compute, where, &gemm);
    gemm.m = rows;
    gemm.n = columns;
    gemm.alpha = 1;
    gemm.beta = FF_MUON_A;
    gemm.a = tall ? x : b;
    gemm.b = tall ? b : x;
    gemm.c = y;
    product(compute, where, &gemm);
}

static void update_bank(ff_cuda_compute *compute, const branch *b, ff_precision precision,
                        ff_cuda_muon bank) {
    void *x = bank.x, *y = b->memory + b->next;
    ff_cuda_keep(&compute->base, ff_cuda_muon_begin(&b->queue, &bank, b->memory + b->sums),
                 "Muon's beginning");
    for (int step = 0; step < FF_MUON_STEPS; step++) {
        iterate(compute, b, precision, &bank, x, y, step == 0);
        void *kept = x;
        x = y;
        y = kept;
    }
    bank.x = x;
    ff_cuda_keep(&compute->base, ff_cuda_muon_end(&b->queue, &bank), "Muon's end");
}

void ff_cuda_muon_enqueue(ff_cuda_compute *compute, const ff_cuda_muon_banks *banks) {
    ff_device *device = compute->base.device;
    const ff_device_table *table = device->table;
    ff_stream *stream = compute->base.stream;
    table->event_record(device, banks->begun, stream, ff_compute_error(&compute->base));
    for (int i = 0; i < banks->branch_count; i++)
        table->stream_wait(device, banks->branches[i].stream, banks->begun,
                           ff_compute_error(&compute->base));
    for (int i = 0; i < banks->count; i++)
        update_bank(compute, &banks->branches[branch_of(banks, i)], banks->precision,
                    banks->banks[i]);
    for (int i = 0; i < banks->branch_count; i++) {
        const branch *b = &banks->branches[i];
        table->event_record(device, b->done, b->stream, ff_compute_error(&compute->base));
        table->stream_wait(device, stream, b->done, ff_compute_error(&compute->base));
    }
}
