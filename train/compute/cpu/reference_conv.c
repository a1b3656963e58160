/* Convolution in plain loops over NCHW (block 1), sums in double. Formula: compute.h. */
#include "train/compute/cpu/reference.h"

#include "format/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* The columns of one row that are accumulated at a time. */
enum { COLUMNS = 64 };

static int smaller(int a, int b) {
    return a < b ? a : b;
}

/* Channels of a group's input and output. */
static int inputs_of(const ff_conv_shape *s) {
    return s->input.c / s->groups;
}
static int outputs_of(const ff_conv_shape *s) {
    return s->output.c / s->groups;
}

/* The range of output columns q in [from, to) whose input column q * stride + offset is in [0,
 * width). */
static void column_range(int stride, int offset, int width, int *from, int *to) {
    int first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    int last = width - 1 - offset < 0 ? -1 : (width - 1 - offset) / stride;
    if (first > *from) *from = first;
    if (last + 1 < *to) *to = last + 1;
}

ff_status ff_reference_conv_create(ff_compute *compute, const ff_conv_shape *shape,
                                   const ff_conv *sibling, ff_conv **conv, ff_error *error) {
    (void)compute;
    (void)sibling; /* weights are always held in torch's order */
    FF_TRY(ff_alloc(conv, 1, sizeof **conv, "a convolution", error));
    (*conv)->shape = *shape;
    (*conv)->weight_count = (size_t)shape->output.c * (size_t)inputs_of(shape) *
                            (size_t)shape->kernel * (size_t)shape->kernel;
    return FF_OK;
}

void ff_reference_conv_destroy(ff_compute *compute, ff_conv *conv) {
    (void)compute;
    free(conv);
}

void ff_reference_conv_import(const ff_conv *conv, const float *oihw, float *held) {
    memcpy(held, oihw, conv->weight_count * sizeof *held);
}

void ff_reference_conv_export(const ff_conv *conv, const float *held, float *oihw) {
    memcpy(oihw, held, conv->weight_count * sizeof *oihw);
}

#define LOOPS "train/compute/cpu/reference_conv_loops.inc"
#include "train/compute/cpu/element_variants.inc"
