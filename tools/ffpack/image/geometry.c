#include "tools/ffpack/image/geometry.h"

#include "format/disk/metadata.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Reads decimal digits from *text on; false if there is none, or the number is not in
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
    return geometry->resize == FF_RESIZE_EXACT || has_crop(geometry) ||
           (geometry->pad_square && geometry->resize == FF_RESIZE_SHORT);
}

bool ff_geometry_is_variable(const ff_geometry *geometry) {
    return geometry->max_side != 0 && !ff_geometry_is_fixed(geometry);
}

/* The size after padding. */
static void padded_size(const ff_geometry *geometry, uint32_t *width, uint32_t *height) {
    if (!geometry->pad_square) return;
    if (*width < *height) *width = *height;
    if (*height < *width) *height = *width;
}

/* The sides after a proportional resize. Sides up to 2^32 of any image and sizes up to
 * FF_SIDE_LIMIT, so the products are exact in a double. */
static void proportions(const ff_geometry *geometry, uint32_t small, uint32_t large,
                        double *short_side, double *long_side) {
    *short_side = small;
    *long_side = large;
    uint32_t bound = geometry->max_side;
    if (geometry->resize == FF_RESIZE_SHORT) {
        *short_side = geometry->size;
        *long_side = floor((double)((uint64_t)geometry->size * large) / (double)small);
    }
    if (bound != 0 && *long_side > bound) {
        *short_side = fmax(floor(bound * *short_side / *long_side), 1);
        *long_side = bound;
    }
}

/* The size after padding and resize. */
static ff_status resized_size(const ff_geometry *geometry, uint32_t width, uint32_t height,
                              uint32_t *resized_width, uint32_t *resized_height, ff_error *error) {
    uint64_t side = width > height ? width : height;
    if (geometry->pad_square && side * side > FF_PIXEL_LIMIT)
        return ff_fail(error, FF_BAD_DATA,
                       "an image of %u x %u pixels would have %" PRIu64
                       " when padded to a square; at most %" PRIu64 " are allowed",
                       width, height, side * side, FF_PIXEL_LIMIT);
    padded_size(geometry, &width, &height);
    *resized_width = geometry->resize_width;
    *resized_height = geometry->resize_height;
    if (geometry->resize == FF_RESIZE_EXACT) return FF_OK;
    bool upright = width <= height;
    double short_side, long_side;
    proportions(geometry, upright ? width : height, upright ? height : width, &short_side,
                &long_side);
    if (long_side > FF_RESIZE_LIMIT && geometry->resize == FF_RESIZE_SHORT)
        return ff_fail(error, FF_BAD_DATA,
                       "an image of %u x %u pixels would have a side of %.0f after the resize "
                       "of its short side to %u; at most %u is allowed",
                       width, height, long_side, geometry->size, FF_RESIZE_LIMIT);
    *resized_width = (uint32_t)(upright ? short_side : long_side);
    *resized_height = (uint32_t)(upright ? long_side : short_side);
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

/* The steps for an image: its size after the resize, the kept window, and its position in the
 * output. */
typedef struct steps {
    uint32_t width, height;
    ff_crop_span across, down;
    uint32_t output_width, output_height;
} steps;

static ff_status find_steps(const ff_geometry *geometry, uint32_t width, uint32_t height, steps *to,
                            ff_error *error) {
    FF_TRY(ff_geometry_output_size(geometry, width, height, &to->output_width, &to->output_height,
                                   error));
    FF_TRY(resized_size(geometry, width, height, &to->width, &to->height, error));
    to->across = ff_geometry_crop_span(to->width, to->output_width);
    to->down = ff_geometry_crop_span(to->height, to->output_height);
    return FF_OK;
}

/* The part of start .. start + length - 1 inside the `size` pixels after `padding` zeros; at least
 * one pixel. */
static void within(uint32_t *start, uint32_t *length, uint32_t padding, uint32_t size) {
    uint32_t end = *start + *length;
    *start = *start > padding ? *start - padding : 0;
    if (*start >= size) *start = size - 1;
    end = end > padding ? end - padding : 0;
    if (end > size) end = size;
    *length = end > *start ? end - *start : 1;
}

ff_status ff_geometry_needed(const ff_geometry *geometry, uint32_t width, uint32_t height,
                             ff_geometry_scratch *scratch, ff_region *needed, ff_error *error) {
    steps to;
    FF_TRY(find_steps(geometry, width, height, &to, error));
    uint32_t padded_width = width, padded_height = height;
    padded_size(geometry, &padded_width, &padded_height);
    ff_region window = {to.across.start, to.down.start, to.across.length, to.down.length};
    FF_TRY(ff_resize_reads(padded_width, padded_height, to.width, to.height,
                           geometry->interpolation, &window, &scratch->resize, needed, error));
    within(&needed->left, &needed->width, (padded_width - width) / 2, width);
    within(&needed->top, &needed->height, (padded_height - height) / 2, height);
    return FF_OK;
}

ff_status ff_geometry_reduction(const ff_geometry *geometry, uint32_t width, uint32_t height,
                                uint32_t *reduction, ff_error *error) {
    uint32_t resized_width = 1, resized_height = 1;
    FF_TRY(resized_size(geometry, width, height, &resized_width, &resized_height, error));
    padded_size(geometry, &width, &height);
    uint32_t across = width / resized_width, down = height / resized_height;
    uint32_t most = across < down ? across : down;
    *reduction = most >= 8 ? 8 : most >= 4 ? 4 : most >= 2 ? 2 : 1;
    return FF_OK;
}

/* Copies a window of `from` into `to`, of width x height, after the padding; the rest is zero. */
static ff_status place(ff_image *to, uint32_t width, uint32_t height, const ff_image *from,
                       const ff_region *window, uint32_t left, uint32_t top, ff_error *error) {
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
                            uint32_t native_width, uint32_t native_height,
                            ff_geometry_scratch *scratch, const ff_image **output,
                            ff_error *error) {
    steps to;
    FF_TRY(find_steps(geometry, native_width, native_height, &to, error));
    const ff_image *image = input;
    uint32_t width = input->width, height = input->height;
    padded_size(geometry, &width, &height);
    if (width != image->width || height != image->height) {
        ff_region whole = {0, 0, image->width, image->height};
        FF_TRY(place(&scratch->padded, width, height, image, &whole, (width - image->width) / 2,
                     (height - image->height) / 2, error));
        image = &scratch->padded;
    }
    ff_region window = {to.across.start, to.down.start, to.across.length, to.down.length};
    if (to.width != image->width || to.height != image->height) {
        FF_TRY(ff_resize(image, to.width, to.height, geometry->interpolation, geometry->order,
                         &window, &scratch->resize, &scratch->resized, error));
        image = &scratch->resized;
        window.left = window.top = 0;
    }
    if (image->width != to.output_width || image->height != to.output_height) {
        FF_TRY(place(&scratch->cropped, to.output_width, to.output_height, image, &window,
                     to.across.padding, to.down.padding, error));
        image = &scratch->cropped;
    }
    *output = image;
    return FF_OK;
}

void ff_geometry_scratch_free(ff_geometry_scratch *scratch) {
    if (!scratch) return;
    ff_resize_scratch_free(&scratch->resize);
    ff_image_free(&scratch->padded);
    ff_image_free(&scratch->resized);
    ff_image_free(&scratch->cropped);
}
