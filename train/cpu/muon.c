#include "train/cpu/muon.h"

#include "format/base/memory.h"

/* The filters as a matrix. */
typedef struct shape {
    size_t rows, columns;
} shape;

static shape shape_of(const ff_conv *conv) {
    const ff_conv_shape *s = &conv->shape;
    return (shape){(size_t)s->output.c, (size_t)s->input.c * s->kernel * s->kernel};
}

/* Scratch: u in the held order, u in torch's order, the room of the steps; each on 64 bytes. */
static size_t held_room(const ff_conv *conv) {
    return ff_align_u64(conv->weight_count, 16);
}
static size_t torch_room(const shape *s) {
    return ff_align_u64(s->rows * s->columns, 16);
}

size_t ff_cpu_muon_scratch(const ff_compute *compute, const ff_conv *conv) {
    (void)compute;
    const shape s = shape_of(conv);
    return (held_room(conv) + torch_room(&s) + ff_muon_room(s.rows, s.columns)) * sizeof(float);
}

void ff_cpu_muon(ff_compute *compute, const ff_conv *conv, const ff_muon *muon, float *value,
                 float *momentum, const float *gradient, void *scratch, ff_matrix_product product) {
    const shape s = shape_of(conv);
    float *held = scratch, *u = held + held_room(conv), *room = u + torch_room(&s);
    ff_muon_momentum(muon, conv->weight_count, momentum, gradient, held);
    compute->ops->conv_export(conv, held, u);
    ff_muon_orthogonalise(muon, s.rows, s.columns, u, room, product, compute);
    compute->ops->conv_import(conv, u, held);
    ff_muon_apply(muon, s.rows, conv->weight_count, value, held);
}
