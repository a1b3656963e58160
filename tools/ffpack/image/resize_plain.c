/* The two passes as in Pillow: the reference for the faster ones, and the fallback on CPUs that
 * cannot run these. */
#include "tools/ffpack/image/resize_passes.h"

#include "format/base/compiler.h"

/* Sums are unsigned so that no input can make them undefined; they are read as two's complement,
 * the int of Resample.c. */
static inline uint8_t clip8(uint32_t sum) {
    int32_t value = (int32_t)sum >> FF_RESIZE_POINT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* One row of 3 channels, the usual case: three sums at a time. */
static void horizontal_row_3(const ff_resize_axis *axis, const uint8_t *input, uint8_t *output) {
    for (uint32_t o = 0; o < axis->count; o++) {
        const uint8_t *in = input + (size_t)axis->first[o] * 3;
        const int32_t *weight = axis->weight + (size_t)o * axis->stride;
        uint32_t red = FF_RESIZE_HALF, green = FF_RESIZE_HALF, blue = FF_RESIZE_HALF;
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
            uint32_t sum = FF_RESIZE_HALF;
            for (uint32_t k = 0; k < axis->taps[o]; k++)
                sum += (uint32_t)weight[k] * in[(size_t)k * channels + c];
            output[(size_t)o * channels + c] = clip8(sum);
        }
    }
}

static void horizontal(const ff_resize_axis *axis, uint32_t channels, const uint8_t *input,
                       size_t input_stride, size_t rows, uint8_t *output) {
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
static void vertical(const ff_resize_axis *axis, const uint8_t *input, size_t input_stride,
                     uint32_t first_row, size_t row_values, uint8_t *output, size_t output_stride) {
    enum { BLOCK = 512 };
    uint32_t sum[BLOCK];
    for (uint32_t o = 0; o < axis->count; o++) {
        const int32_t *weight = axis->weight + (size_t)o * axis->stride;
        for (size_t start = 0; start < row_values; start += BLOCK) {
            size_t count = row_values - start < BLOCK ? row_values - start : BLOCK;
            for (size_t i = 0; i < count; i++) sum[i] = FF_RESIZE_HALF;
            for (uint32_t k = 0; k < axis->taps[o]; k++) {
                uint32_t w = (uint32_t)weight[k];
                const uint8_t *in =
                    input + (size_t)(axis->first[o] + k - first_row) * input_stride + start;
                for (size_t i = 0; i < count; i++) sum[i] += w * in[i];
            }
            uint8_t *out = output + (size_t)o * output_stride + start;
            for (size_t i = 0; i < count; i++) out[i] = clip8(sum[i]);
        }
    }
}

const ff_resize_passes ff_resize_plain = {
    .name = "plain", .horizontal = horizontal, .vertical = vertical};
