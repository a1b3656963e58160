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
        table->channels = 0; /* not prepared, should memory run out */
        FF_TRY(passes->prepare(axis, channels, error));
        table->channels = channels;
    }
    if (passes->prepare && !table->fits) passes = &ff_resize_plain;
    passes->horizontal(axis, channels, input, input_stride, rows, output);
    return FF_OK;
}

ff_status ff_resize(const ff_image *input, uint32_t width, uint32_t height,
                    ff_interpolation interpolation, const ff_resize_window *window,
                    ff_resize_scratch *scratch, ff_image *output, ff_error *error) {
    assert(window->width >= 1 && window->left < width && window->width <= width - window->left);
    assert(window->height >= 1 && window->top < height && window->height <= height - window->top);
    const ff_resize_passes *passes = ff_resize_best();
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
        FF_TRY(run_horizontal(passes, horizontal, channels, from, stride, rows, target->pixels,
                              error));
        from = target->pixels;
        stride = row_values;
    } else {
        from += (size_t)window->left * channels;
    }
    if (down)
        passes->vertical(vertical, from, stride, first_row, row_values, output->pixels);
    else if (!across)
        for (uint32_t row = 0; row < rows; row++)
            memcpy(output->pixels + row * row_values, from + row * stride, row_values);
    return FF_OK;
}

void ff_resize_scratch_free(ff_resize_scratch *scratch) {
    if (!scratch) return;
    ff_resize_axis_free(&scratch->horizontal);
    ff_resize_axis_free(&scratch->vertical);
    ff_image_free(&scratch->between);
}
