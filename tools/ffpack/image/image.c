#include "tools/ffpack/image/image.h"

#include "format/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const mode_names[FF_MODE_COUNT] = {"rgb", "gray", "native"};

const char *ff_image_mode_name(ff_image_mode mode) {
    assert(mode < FF_MODE_COUNT);
    return mode_names[mode];
}

uint32_t ff_image_mode_channels(ff_image_mode mode, uint32_t native_channels) {
    return mode == FF_MODE_NATIVE ? native_channels : mode == FF_MODE_GRAY ? 1 : 3;
}

ff_status ff_image_reserve(ff_image *image, uint64_t bytes, ff_error *error) {
    if (bytes <= image->capacity_bytes) return FF_OK;
    /* No copy and no doubling: the old pixels are not needed, and sizes settle after a few
     * images. */
    uint8_t *grown;
    FF_TRY(ff_alloc_aligned(&grown, bytes, 1, 0, "an image's pixels", error));
    free(image->pixels);
    image->pixels = grown;
    image->capacity_bytes = (size_t)bytes;
    return FF_OK;
}

ff_status ff_image_reshape(ff_image *image, uint32_t width, uint32_t height, uint32_t channels,
                           ff_error *error) {
    uint64_t bytes;
    if (!ff_mul_u64((uint64_t)width * height, channels, &bytes))
        return ff_fail(error, FF_NO_MEMORY, "an image of %u x %u x %u values is too large", width,
                       height, channels);
    FF_TRY(ff_image_reserve(image, bytes, error));
    image->width = width;
    image->height = height;
    image->channels = channels;
    return FF_OK;
}

ff_status ff_image_from_planes(ff_image *image, const uint8_t *planes, uint32_t width,
                               uint32_t height, uint32_t channels, ff_error *error) {
    FF_TRY(ff_image_reshape(image, width, height, channels, error));
    size_t plane = (size_t)width * height;
    for (uint32_t c = 0; c < channels; c++)
        for (size_t i = 0; i < plane; i++) image->pixels[i * channels + c] = planes[c * plane + i];
    return FF_OK;
}

ff_status ff_image_to_rgb(ff_image *image, ff_error *error) {
    if (image->channels == 3) return FF_OK;
    assert(image->channels == 1);
    size_t count = (size_t)image->width * image->height;
    if (count * 3 > image->capacity_bytes) {
        ff_image wide = {0};
        FF_TRY(ff_image_reshape(&wide, image->width, image->height, 3, error));
        memcpy(wide.pixels, image->pixels, count);
        wide.clips = image->clips;
        ff_image_free(image);
        *image = wide;
    }
    /* From the last pixel on, so that each is read before it is overwritten. */
    for (size_t i = count; i-- > 0;) memset(image->pixels + 3 * i, image->pixels[i], 3);
    image->channels = 3;
    return FF_OK;
}

void ff_image_to_gray(ff_image *image) {
    if (image->channels == 1) return;
    assert(image->channels == 3);
    size_t count = (size_t)image->width * image->height;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *rgb = image->pixels + 3 * i;
        image->pixels[i] =
            (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
    }
    image->channels = 1;
}

ff_status ff_image_to_mode(ff_image *image, ff_image_mode mode, ff_error *error) {
    if (mode == FF_MODE_GRAY) ff_image_to_gray(image);
    return mode == FF_MODE_RGB ? ff_image_to_rgb(image, error) : FF_OK;
}

void ff_image_free(ff_image *image) {
    if (!image) return;
    free(image->pixels);
    *image = (ff_image){0};
}
