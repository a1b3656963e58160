/* Muon on the device (train/muon.h): own kernels round the library's matrix products. */
#include "train/cuda/compute_update.h"

#include "format/base/memory.h"
#include "train/muon.h"

#include <stdlib.h>

struct ff_cuda_muon_banks {
    ff_cuda_muon *banks;
    int count;
    ff_precision precision; /* of the products */
    /* Room of all banks: norms, partial sums, two matrices [rows][columns], two [least][least]. */
    char *room;
    size_t sums, next, a, b; /* offsets */
};

/* Sizes of the largest bank. */
typedef struct most {
    size_t elements, squares;
} most;

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
    };
    bank.segment.count =
        (uint64_t)bank.rows * bank.columns; /* rows that pad are zero and stay so */
    return bank;
}

static ff_status allocate(ff_cuda_muon_banks *banks, ff_cuda_compute *compute, most size,
                          ff_error *error) {
    const size_t element = banks->precision == FF_PRECISION_BF16 ? 2 : 4;
    const size_t matrix = ff_align_u64(size.elements * element, 256);
    const size_t square = ff_align_u64(size.squares * element, 256);
    const size_t x = 256 + ff_align_u64(ff_cuda_muon_scratch(compute->place.multiprocessors), 256);
    banks->sums = 256;
    banks->next = x + matrix;
    banks->a = banks->next + matrix;
    banks->b = banks->a + square;
    FF_TRY(ff_compute_allocate(&compute->base, &banks->room, banks->b + square, "Muon's matrices",
                               error));
    for (int i = 0; i < banks->count; i++) {
        banks->banks[i].dtype = ff_precision_dtype(banks->precision);
        banks->banks[i].norms = (double *)(void *)banks->room;
        banks->banks[i].x = banks->room + x;
    }
    return FF_OK;
}

ff_status ff_cuda_muon_create(ff_cuda_muon_banks **out, ff_cuda_compute *compute,
                              const ff_update_spec *spec, const ff_cuda_segment *segments,
                              const ff_cuda_group *groups, const ff_cuda_update *tables,
                              ff_error *error) {
    ff_cuda_muon_banks *banks;
    most size = {0};
    int count = 0;
    *out = NULL;
    for (int i = 0; i < spec->segment_count; i++) count += spec->segments[i].rule == FF_RULE_MUON;
    if (!count) return FF_OK;
    FF_TRY(ff_alloc(&banks, 1, sizeof *banks, "Muon", error));
    *out = banks;
    /* 16 bits: the range of bf16 is what these products want, whatever the network computes in. */
    const bool wide = compute->base.dtype == FF_F32;
    banks->precision = wide ? compute->base.precision : FF_PRECISION_BF16;
    FF_TRY(ff_alloc(&banks->banks, (uint64_t)count, sizeof *banks->banks, "Muon", error));
    for (int i = 0; i < spec->segment_count; i++) {
        if (spec->segments[i].rule != FF_RULE_MUON) continue;
        ff_cuda_muon *bank = &banks->banks[banks->count];
        *bank = bank_of(&spec->segments[i], &segments[banks->count], groups, tables);
        banks->count++;
        const size_t least = least_side(bank);
        if (bank->segment.count > size.elements) size.elements = bank->segment.count;
        if (least * least > size.squares) size.squares = least * least;
    }
    return allocate(banks, compute, size, error);
}

void ff_cuda_muon_destroy(ff_compute *compute, ff_cuda_muon_banks *banks) {
    if (!banks) return;
    if (banks->room) ff_compute_release(compute, banks->room);
    free(banks->banks);
    free(banks);
}

static void product(ff_cuda_compute *compute, const ff_library_gemm *gemm) {
    compute->table->gemm(compute->library, compute->place.stream, gemm, compute->gemm_workspace,
                         ff_compute_error(&compute->base));
}

/* One Newton-Schulz step from x to y: A = X X', B = b A + c A A, Y = a X + B X; of what is taller
 * than wide A = X' X and Y = a X + X B. */
static void iterate(ff_cuda_compute *compute, const ff_cuda_muon_banks *banks,
                    const ff_cuda_muon *bank, const void *x, void *y) {
    const int rows = bank->rows, columns = (int)bank->columns;
    const bool tall = rows > columns;
    const int least = tall ? columns : rows;
    const size_t element = ff_dtype_bytes(bank->dtype);
    char *a = banks->room + banks->a, *b = banks->room + banks->b;
    ff_library_gemm gemm = {
        .m = least,
        .n = least,
        .k = tall ? rows : columns,
        .precision = banks->precision,
        .c_type = bank->dtype,
        .transpose_a = tall,
        .transpose_b = !tall,
        .alpha = 1,
        .a = x,
        .b = x,
        .c = a,
    };
    product(compute, &gemm);
    ff_compute_copy(&compute->base, b, a, (uint64_t)least * (uint64_t)least * element);
    gemm.k = least;
    gemm.transpose_a = gemm.transpose_b = false;
    gemm.alpha = FF_MUON_C;
    gemm.beta = FF_MUON_B;
    gemm.a = gemm.b = a;
    gemm.c = b;
    product(compute, &gemm);
    ff_compute_copy(&compute->base, y, x, bank->segment.count * element);
    gemm.m = rows;
    gemm.n = columns;
    gemm.alpha = 1;
    gemm.beta = FF_MUON_A;
    gemm.a = tall ? x : b;
    gemm.b = tall ? b : x;
    gemm.c = y;
    product(compute, &gemm);
}

void ff_cuda_muon_enqueue(ff_cuda_compute *compute, const ff_cuda_muon_banks *banks) {
    for (int i = 0; banks && i < banks->count; i++) {
        ff_cuda_muon bank = banks->banks[i];
        void *x = bank.x, *y = banks->room + banks->next;
        ff_cuda_keep(&compute->base,
                     ff_cuda_muon_begin(&compute->place, &bank, banks->room + banks->sums),
                     "Muon's beginning");
        for (int step = 0; step < FF_MUON_STEPS; step++) {
            iterate(compute, banks, &bank, x, y);
            void *kept = x;
            x = y;
            y = kept;
        }
        bank.x = x;
        ff_cuda_keep(&compute->base, ff_cuda_muon_end(&compute->place, &bank), "Muon's end");
    }
}
