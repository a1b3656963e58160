#include "tools/ffpack/image/resize_passes.h"

#include <assert.h>
#include <string.h>

const ff_resize_passes *const ff_resize_all[] = {&ff_resize_avx512, &ff_resize_avx2,
                                                 &ff_resize_plain, NULL};

const ff_resize_passes *ff_resize_best(void) {
    const ff_resize_passes *const *passes = ff_resize_all;
    while ((*passes)->runs && !(*passes)->runs()) passes++;
    return *passes;
}

static ff_status run_horizontal(const ff_resize_passes *passes, ff_resize_axis *axis,
                                uint32_t channels, const uint8_t *input, size_t input_stride,
                                size_t rows, uint8_t *output, ff_error *error) {
    ff_resize_table *table = &axis->table;
    if (passes->prepare && table->channels != channels) {
        table->channels = 0; /* stays 0 if memory runs out: not prepared */
        FF_TRY(passes->prepare(axis, channels, error));
        table->channels = channels;
    }
    if (passes->prepare && !table->fits) passes = &ff_resize_plain;
    passes->horizontal(axis, channels, input, input_stride, rows, output);
    return FF_OK;
}

/* One axis: *first and *length of the pixels that it reads. An axis that keeps its length is not
 * planned. */
static ff_status plan_axis(ff_resize_axis *axis, uint32_t input, uint32_t output, uint32_t start,
                           uint32_t count, ff_interpolation interpolation, uint32_t *first,
                           uint32_t *length, ff_error *error) {
    assert(count >= 1 && start < output && count <= output - start);
    *first = start;
    *length = count;
    if (input == output) return FF_OK;
    FF_TRY(ff_resize_axis_plan(axis, input, output, start, count, interpolation, error));
    *first = axis->first[0];
    *length = axis->first[count - 1] + axis->taps[count - 1] - *first;
    return FF_OK;
}

ff_status ff_resize_reads(uint32_t input_width, uint32_t input_height, uint32_t width,
                          uint32_t height, ff_interpolation interpolation, const ff_region *window,
                          ff_resize_scratch *scratch, ff_region *reads, ff_error *error) {
    FF_TRY(plan_axis(&scratch->horizontal, input_width, width, window->left, window->width,
                     interpolation, &reads->left, &reads->width, error));
    return plan_axis(&scratch->vertical, input_height, height, window->top, window->height,
                     interpolation, &reads->top, &reads->height, error);
}

static bool is_vertical_first(ff_pass_order order, const ff_image *input, uint32_t width,
                              uint32_t height) {
    int64_t across = (int64_t)input->width - width, down = (int64_t)input->height - height;
    return order == FF_CHEAPER_FIRST && across != 0 && down > 0 && down > 2 * across;
}

/* The vertical pass to whole rows; computes only the columns that will be read. */
static ff_status run_vertical_first(const ff_resize_passes *passes, const ff_image *input,
                                    const ff_region *reads, ff_resize_scratch *scratch,
                                    ff_image *output, ff_error *error) {
    ff_image *between = &scratch->between;
    uint32_t channels = input->channels;
    size_t stride = (size_t)input->width * channels, left = (size_t)reads->left * channels;
    FF_TRY(ff_image_reshape(between, input->width, output->height, channels, error));
    passes->vertical(&scratch->vertical, input->pixels + reads->top * stride + left, stride,
                     reads->top, (size_t)reads->width * channels, between->pixels + left, stride);
    return run_horizontal(passes, &scratch->horizontal, channels, between->pixels, stride,
                          output->height, output->pixels, error);
}

ff_status ff_resize_by(const ff_resize_passes *passes, const ff_image *input, uint32_t width,
                       uint32_t height, ff_interpolation interpolation, ff_pass_order order,
                       const ff_region *window, ff_resize_scratch *scratch, ff_image *output,
                       ff_error *error) {
    uint32_t channels = input->channels;
    bool across = width != input->width, down = height != input->height;
    ff_region reads;
    FF_TRY(ff_resize_reads(input->width, input->height, width, height, interpolation, window,
                           scratch, &reads, error));
    FF_TRY(ff_image_reshape(output, window->width, window->height, channels, error));
    if (is_vertical_first(order, input, width, height))
        return run_vertical_first(passes, input, &reads, scratch, output, error);
    size_t stride = (size_t)input->width * channels;
    size_t row_values = (size_t)window->width * channels;
    const uint8_t *from = input->pixels + reads.top * stride;
    if (across) {
        ff_image *target = output;
        if (down) {
            target = &scratch->between;
            FF_TRY(ff_image_reshape(target, window->width, reads.height, channels, error));
        }
        FF_TRY(run_horizontal(passes, &scratch->horizontal, channels, from, stride, reads.height,
                              target->pixels, error));
        from = target->pixels;
        stride = row_values;
    } else {
        from += (size_t)window->left * channels;
    }
    if (down)
        passes->vertical(&scratch->vertical, from, stride, reads.top, row_values, output->pixels,
                         row_values);
    else if (!across)
        for (uint32_t row = 0; row < reads.height; row++)
            memcpy(output->pixels + row * row_values, from + row * stride, row_values);
    return FF_OK;
}

ff_status ff_resize(const ff_image *input, uint32_t width, uint32_t height,
                    ff_interpolation interpolation, ff_pass_order order, const ff_region *window,
                    ff_resize_scratch *scratch, ff_image *output, ff_error *error) {
    return ff_resize_by(ff_resize_best(), input, width, height, interpolation, order, window,
                        scratch, output, error);
}

void ff_resize_scratch_free(ff_resize_scratch *scratch) {
    if (!scratch) return;
    ff_resize_axis_free(&scratch->horizontal);
    ff_resize_axis_free(&scratch->vertical);
    ff_image_free(&scratch->between);
}
