/* The weights of one axis. */
#include "tools/ffpack/image/resize_passes.h"

#include "format/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const interpolation_names[FF_INTERPOLATION_COUNT] = {"bilinear", "bicubic"};

const char *ff_interpolation_name(ff_interpolation interpolation) {
    assert(interpolation < FF_INTERPOLATION_COUNT);
    return interpolation_names[interpolation];
}

static double bilinear(double x) {
    if (x < 0.0) x = -x;
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* Keys' cubic with a = -0.5, in Resample.c's order of operations. */
static double bicubic(double x) {
    const double a = -0.5;
    if (x < 0.0) x = -x;
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

static const struct {
    double (*weight)(double x);
    double support;
} filters[FF_INTERPOLATION_COUNT] = {{bilinear, 1.0}, {bicubic, 2.0}};

static int32_t fixed_point(double weight) {
    double scaled = weight * (1 << FF_RESIZE_POINT_BITS);
    return (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

static bool is_planned(const ff_resize_axis *axis, uint32_t input, uint32_t output,
                       uint32_t first_output, uint32_t count, ff_interpolation interpolation) {
    return axis->input == input && axis->output == output && axis->first_output == first_output &&
           axis->count == count && axis->interpolation == interpolation;
}

ff_status ff_resize_axis_plan(ff_resize_axis *axis, uint32_t input, uint32_t output,
                              uint32_t first_output, uint32_t count, ff_interpolation interpolation,
                              ff_error *error) {
    assert(input >= 1 && input <= FF_RESIZE_LIMIT && output >= 1 && output <= FF_RESIZE_LIMIT);
    assert(count >= 1 && first_output < output && count <= output - first_output);
    if (is_planned(axis, input, output, first_output, count, interpolation)) return FF_OK;
    axis->input = 0; /* stays 0 if memory runs out: not planned */
    axis->table.channels = 0;

    double scale = (double)input / output;
    double stretch = scale < 1.0 ? 1.0 : scale;
    double support = filters[interpolation].support * stretch;
    double shrink = 1.0 / stretch;
    double widest = ceil(support) * 2 + 1;
    uint32_t stride = widest > input ? input : (uint32_t)widest;
    const char *what = "the weights of a resize";
    FF_TRY(
        ff_reserve(&axis->first, &axis->first_capacity, count, sizeof *axis->first, what, error));
    FF_TRY(ff_reserve(&axis->taps, &axis->taps_capacity, count, sizeof *axis->taps, what, error));
    FF_TRY(ff_reserve(&axis->weight, &axis->weight_capacity, (size_t)count * stride,
                      sizeof *axis->weight, what, error));

    for (uint32_t o = 0; o < count; o++) {
        double center = (first_output + o + 0.5) * scale;
        int64_t first = (int64_t)(center - support + 0.5);
        int64_t end = (int64_t)(center + support + 0.5);
        if (first < 0) first = 0;
        if (end > input) end = input;
        uint32_t taps = (uint32_t)(end - first);
        int32_t *weight = axis->weight + (size_t)o * stride;
        double sum = 0.0;
        for (uint32_t k = 0; k < taps; k++)
            sum += filters[interpolation].weight((k + first - center + 0.5) * shrink);
        for (uint32_t k = 0; k < taps; k++) {
            double exact = filters[interpolation].weight((k + first - center + 0.5) * shrink);
            weight[k] = fixed_point(sum != 0.0 ? exact / sum : exact);
        }
        for (uint32_t k = taps; k < stride; k++) weight[k] = 0;
        axis->first[o] = (uint32_t)first;
        axis->taps[o] = taps;
    }
    axis->count = count;
    axis->stride = stride;
    axis->input = input;
    axis->output = output;
    axis->first_output = first_output;
    axis->interpolation = interpolation;
    return FF_OK;
}

void ff_resize_axis_free(ff_resize_axis *axis) {
    free(axis->first);
    free(axis->taps);
    free(axis->weight);
    free(axis->table.memory);
    *axis = (ff_resize_axis){0};
}

ff_status ff_resize_table_reserve(ff_resize_axis *axis, uint32_t steps, size_t bytes,
                                  ff_error *error) {
    ff_resize_table *table = &axis->table;
    FF_TRY(ff_reserve(&table->memory, &table->capacity, steps * bytes + 63, 1,
                      "the table of a resize", error));
    table->step = (void *)(((uintptr_t)table->memory + 63) & ~(uintptr_t)63);
    table->steps = steps;
    memset(table->step, 0, steps * bytes);
    return FF_OK;
}
