#include "tools/ffpack/image/resize.h"

#include "format/base/compiler.h"
#include "format/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { POINT_BITS = 22 }; /* Resample.c: PRECISION_BITS = 32 - 8 - 2 */

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
    double scaled = weight * (1 << POINT_BITS);
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
    axis->input = 0; /* not planned, should memory run out */

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

/* Sums are unsigned so that no input can make them undefined; they are read as two's complement,
 * the int of Resample.c. */
static inline uint8_t clip8(uint32_t sum) {
    int32_t value = (int32_t)sum >> POINT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}
static const uint32_t half = UINT32_C(1) << (POINT_BITS - 1);

/* One row of 3 channels, the usual case: three sums at a time. */
static void horizontal_row_3(const ff_resize_axis *axis, const uint8_t *input, uint8_t *output) {
    for (uint32_t o = 0; o < axis->count; o++) {
        const uint8_t *in = input + (size_t)axis->first[o] * 3;
        const int32_t *weight = axis->weight + (size_t)o * axis->stride;
        uint32_t red = half, green = half, blue = half;
        for (uint32_t k = 0; k < axis->taps[o]; k++) {
            uint32_t w = (uint32_t)weight[k];
            red += w * in[3 * k];
            green += w * in[3 * k + 1];
            blue += w * in[3 * k + 2];
        }
        output[3 * o] = clip8(red);
        output[3 * o + 1] = clip8(green);
        output[3 * o + 2] = clip8(blue);
    }
}

static void horizontal_row(const ff_resize_axis *axis, const uint8_t *input, uint32_t channels,
                           uint8_t *output) {
    for (uint32_t o = 0; o < axis->count; o++) {
        const uint8_t *in = input + (size_t)axis->first[o] * channels;
        const int32_t *weight = axis->weight + (size_t)o * axis->stride;
        for (uint32_t c = 0; c < channels; c++) {
            uint32_t sum = half;
            for (uint32_t k = 0; k < axis->taps[o]; k++)
                sum += (uint32_t)weight[k] * in[(size_t)k * channels + c];
            output[(size_t)o * channels + c] = clip8(sum);
        }
    }
}

void ff_resize_horizontal_plain(const ff_resize_axis *axis, const uint8_t *input,
                                size_t input_stride, size_t rows, uint32_t channels,
                                uint8_t *output) {
    for (size_t row = 0; row < rows; row++) {
        const uint8_t *in = input + row * input_stride;
        uint8_t *out = output + row * axis->count * channels;
        if (channels == 3)
            horizontal_row_3(axis, in, out);
        else
            horizontal_row(axis, in, channels, out);
    }
}

/* Columns are summed a block at a time, so that the loop over a row's values is the inner one and
 * the sums stay in the nearest cache. */
FF_CLONES
void ff_resize_vertical_plain(const ff_resize_axis *axis, const uint8_t *input, size_t input_stride,
                              uint32_t first_row, size_t row_values, uint8_t *output) {
    enum { BLOCK = 512 };
    uint32_t sum[BLOCK];
    for (uint32_t o = 0; o < axis->count; o++) {
        const int32_t *weight = axis->weight + (size_t)o * axis->stride;
        for (size_t start = 0; start < row_values; start += BLOCK) {
            size_t count = row_values - start < BLOCK ? row_values - start : BLOCK;
            for (size_t i = 0; i < count; i++) sum[i] = half;
            for (uint32_t k = 0; k < axis->taps[o]; k++) {
                uint32_t w = (uint32_t)weight[k];
                const uint8_t *in =
                    input + (size_t)(axis->first[o] + k - first_row) * input_stride + start;
                for (size_t i = 0; i < count; i++) sum[i] += w * in[i];
            }
            uint8_t *out = output + (size_t)o * row_values + start;
            for (size_t i = 0; i < count; i++) out[i] = clip8(sum[i]);
        }
    }
}

ff_status ff_resize(const ff_image *input, uint32_t width, uint32_t height,
                    ff_interpolation interpolation, const ff_resize_window *window,
                    ff_resize_scratch *scratch, ff_image *output, ff_error *error) {
    assert(window->width >= 1 && window->left < width && window->width <= width - window->left);
    assert(window->height >= 1 && window->top < height && window->height <= height - window->top);
    uint32_t channels = input->channels;
    bool across = width != input->width, down = height != input->height;
    ff_resize_axis *horizontal = &scratch->horizontal, *vertical = &scratch->vertical;

    /* The input rows that are read, and the values of each that the vertical pass reads. */
    uint32_t first_row = window->top, rows = window->height;
    if (across)
        FF_TRY(ff_resize_axis_plan(horizontal, input->width, width, window->left, window->width,
                                   interpolation, error));
    if (down) {
        FF_TRY(ff_resize_axis_plan(vertical, input->height, height, window->top, window->height,
                                   interpolation, error));
        uint32_t last = vertical->count - 1;
        first_row = vertical->first[0];
        rows = vertical->first[last] + vertical->taps[last] - first_row;
    }
    FF_TRY(ff_image_reshape(output, window->width, window->height, channels, error));
    size_t stride = (size_t)input->width * channels;
    size_t row_values = (size_t)window->width * channels;
    const uint8_t *from = input->pixels + first_row * stride;
    if (across) {
        ff_image *target = output;
        if (down) {
            target = &scratch->between;
            FF_TRY(ff_image_reshape(target, window->width, rows, channels, error));
        }
        ff_resize_horizontal_plain(horizontal, from, stride, rows, channels, target->pixels);
        from = target->pixels;
        stride = row_values;
    } else {
        from += (size_t)window->left * channels;
    }
    if (down)
        ff_resize_vertical_plain(vertical, from, stride, first_row, row_values, output->pixels);
    else if (!across)
        for (uint32_t row = 0; row < rows; row++)
            memcpy(output->pixels + row * row_values, from + row * stride, row_values);
    return FF_OK;
}

static void free_axis(ff_resize_axis *axis) {
    free(axis->first);
    free(axis->taps);
    free(axis->weight);
    *axis = (ff_resize_axis){0};
}

void ff_resize_scratch_free(ff_resize_scratch *scratch) {
    if (!scratch) return;
    free_axis(&scratch->horizontal);
    free_axis(&scratch->vertical);
    ff_image_free(&scratch->between);
}
