#include "tools/ffpack/image/geometry.h"

#include "format/metadata.h"

#include <string.h>

/* Reads decimal digits from *text on; false where there is none, or the number is not in
 * 1..FF_SIDE_LIMIT. */
static bool read_side(const char **text, uint32_t *side) {
    uint64_t value = 0;
    const char *at = *text;
    while (*at >= '0' && *at <= '9' && value <= FF_SIDE_LIMIT)
        value = value * 10 + (uint64_t)(*at++ - '0');
    if (at == *text || value == 0 || value > FF_SIDE_LIMIT) return false;
    *text = at;
    *side = (uint32_t)value;
    return true;
}

/* "N" (then *square) or "HxW". */
static ff_status read_size(const char *option, const char *text, uint32_t *height, uint32_t *width,
                           bool *square, ff_error *error) {
    const char *at = text;
    bool good = read_side(&at, height);
    *square = good && *at == '\0';
    *width = *square ? *height : 0;
    if (good && !*square) good = *at++ == 'x' && read_side(&at, width) && *at == '\0';
    if (good) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s: '%s' is not a size; N or HxW is wanted, each a whole number from 1 to %u",
                   option, text, FF_SIDE_LIMIT);
}

ff_status ff_geometry_parse_resize(ff_geometry *geometry, const char *option, const char *text,
                                   ff_error *error) {
    uint32_t height, width;
    bool square;
    FF_TRY(read_size(option, text, &height, &width, &square, error));
    geometry->resize = square ? FF_RESIZE_SHORT : FF_RESIZE_EXACT;
    geometry->size = square ? height : 0;
    geometry->resize_height = square ? 0 : height;
    geometry->resize_width = square ? 0 : width;
    return FF_OK;
}

ff_status ff_geometry_parse_crop(ff_geometry *geometry, const char *option, const char *text,
                                 ff_error *error) {
    bool square;
    uint32_t height, width;
    FF_TRY(read_size(option, text, &height, &width, &square, error));
    geometry->crop_height = height;
    geometry->crop_width = width;
    return FF_OK;
}

static bool has_crop(const ff_geometry *geometry) {
    return geometry->crop_height != 0;
}

bool ff_geometry_is_fixed(const ff_geometry *geometry) {
    return geometry->resize == FF_RESIZE_EXACT || has_crop(geometry);
}

/* The size after the resize. Sides up to 2^32 of any image and sizes up to FF_SIDE_LIMIT, so the
 * products are exact in a double. */
static ff_status resized_size(const ff_geometry *geometry, uint32_t width, uint32_t height,
                              uint32_t *resized_width, uint32_t *resized_height, ff_error *error) {
    *resized_width = width;
    *resized_height = height;
    if (geometry->resize == FF_RESIZE_EXACT) {
        *resized_width = geometry->resize_width;
        *resized_height = geometry->resize_height;
    } else if (geometry->resize == FF_RESIZE_SHORT) {
        bool upright = width <= height;
        uint32_t small = upright ? width : height, large = upright ? height : width;
        double long_side = (double)((uint64_t)geometry->size * large) / (double)small;
        if (long_side > FF_RESIZE_LIMIT)
            return ff_fail(error, FF_BAD_DATA,
                           "an image of %u x %u pixels would have a side of %.0f after the resize "
                           "of its short side to %u; at most %u is allowed",
                           width, height, long_side, geometry->size, FF_RESIZE_LIMIT);
        *resized_width = upright ? geometry->size : (uint32_t)long_side;
        *resized_height = upright ? (uint32_t)long_side : geometry->size;
    }
    return FF_OK;
}

ff_status ff_geometry_output_size(const ff_geometry *geometry, uint32_t width, uint32_t height,
                                  uint32_t *output_width, uint32_t *output_height,
                                  ff_error *error) {
    FF_TRY(resized_size(geometry, width, height, output_width, output_height, error));
    if (has_crop(geometry)) {
        *output_width = geometry->crop_width;
        *output_height = geometry->crop_height;
    }
    if (*output_width > FF_SIDE_LIMIT || *output_height > FF_SIDE_LIMIT)
        return ff_fail(error, FF_BAD_DATA,
                       "an image of %u x %u pixels would be packed as %u x %u; a side may have at "
                       "most %u (--resize or --center-crop make it smaller)",
                       width, height, *output_width, *output_height, FF_SIDE_LIMIT);
    return FF_OK;
}

ff_crop_span ff_geometry_crop_span(uint32_t size, uint32_t wanted) {
    if (size < wanted) return (ff_crop_span){.length = size, .padding = (wanted - size) / 2};
    uint32_t spare = size - wanted, start = spare / 2;
    /* Python's round() of start + 0.5 goes to the even neighbour. */
    if (spare % 2 == 1 && start % 2 == 1) start++;
    return (ff_crop_span){.start = start, .length = wanted};
}

/* Copies a window of `from` into `to`, of width x height, behind the padding; the rest is zero. */
static ff_status place(ff_image *to, uint32_t width, uint32_t height, const ff_image *from,
                       const ff_resize_window *window, uint32_t left, uint32_t top,
                       ff_error *error) {
    uint32_t channels = from->channels;
    FF_TRY(ff_image_reshape(to, width, height, channels, error));
    if (window->width != width || window->height != height)
        memset(to->pixels, 0, (size_t)width * height * channels);
    for (uint32_t y = 0; y < window->height; y++)
        memcpy(to->pixels + ((size_t)(top + y) * width + left) * channels,
               from->pixels + ((size_t)(window->top + y) * from->width + window->left) * channels,
               (size_t)window->width * channels);
    return FF_OK;
}

ff_status ff_geometry_apply(const ff_geometry *geometry, const ff_image *input,
                            ff_geometry_scratch *scratch, const ff_image **output,
                            ff_error *error) {
    uint32_t output_width, output_height, width, height;
    FF_TRY(ff_geometry_output_size(geometry, input->width, input->height, &output_width,
                                   &output_height, error));
    FF_TRY(resized_size(geometry, input->width, input->height, &width, &height, error));
    ff_crop_span across = ff_geometry_crop_span(width, output_width);
    ff_crop_span down = ff_geometry_crop_span(height, output_height);
    ff_resize_window window = {across.start, down.start, across.length, down.length};
    const ff_image *image = input;
    if (width != input->width || height != input->height) {
        FF_TRY(ff_resize(input, width, height, geometry->interpolation, &window, &scratch->resize,
                         &scratch->resized, error));
        image = &scratch->resized;
        window.left = window.top = 0;
    }
    if (image->width != output_width || image->height != output_height) {
        FF_TRY(place(&scratch->cropped, output_width, output_height, image, &window, across.padding,
                     down.padding, error));
        image = &scratch->cropped;
    }
    *output = image;
    return FF_OK;
}

void ff_geometry_scratch_free(ff_geometry_scratch *scratch) {
    if (!scratch) return;
    ff_resize_scratch_free(&scratch->resize);
    ff_image_free(&scratch->resized);
    ff_image_free(&scratch->cropped);
}
