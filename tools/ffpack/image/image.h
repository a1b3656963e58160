/* Room tools/ffpack/image, floor 10: from decoded pixels to the values that are packed.
 *
 * geometry.c pads, resizes and crops as torchvision does on Pillow's images; resize.c picks the
 * fastest resizing passes that the processor runs. transform.c makes the tables of ToTensor and
 * Normalize, and transform_apply.c applies them. stats.c sums for the mean and the standard
 * deviation.
 *
 * May include format.
 *
 * A decoded image: u8 values, channels interleaved. Each worker keeps and reuses one, so that
 * memory is allocated only for an image larger than all before it.
 *
 * Thread rule: an image belongs to one thread at a time. */
#ifndef FF_FFPACK_IMAGE_H
#define FF_FFPACK_IMAGE_H

#include "format/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialised `{0}` is an empty image, valid to pass to everything below. */
typedef struct ff_image {
    uint8_t *pixels; /* [height, width, channels] u8, no padding between rows; owned */
    uint32_t width, height;
    uint32_t channels; /* 1 = grey, 2 = a grey in a u16, 3 = R, G, B; ff_image_from_planes takes any
                          number */
    size_t capacity_bytes;
    bool clips; /* ff_decode: the file has greys of more than 8 bits, of which those above 255 are
                   255 */
} ff_image;

/* Pixels (width x height) beyond which Pillow refuses an image: twice its MAX_IMAGE_PIXELS. */
#define FF_PIXEL_LIMIT UINT64_C(178956970)

/* A rectangle inside an image; no side is 0. */
typedef struct ff_region {
    uint32_t left, top, width, height;
} ff_region;

/* The channels of a decoded image. */
typedef enum ff_image_mode {
    FF_MODE_RGB,    /* 3 channels, as Pillow's convert('RGB'); torchvision's default loader */
    FF_MODE_GRAY,   /* 1 channel, as Pillow's convert('L') */
    FF_MODE_NATIVE, /* 1 channel if the file is grey (alpha dropped), else 3 */
    FF_MODE_COUNT
} ff_image_mode;

/* "rgb" "gray" "native". */
const char *ff_image_mode_name(ff_image_mode mode);

/* Channels of an image of `native_channels` (1 or 3) decoded in `mode`. */
uint32_t ff_image_mode_channels(ff_image_mode mode, uint32_t native_channels);

/* Sets the shape and allocates the pixels, which are undefined afterwards. On failure
 * (FF_NO_MEMORY) the image is unchanged. */
FF_MUST_USE ff_status ff_image_reshape(ff_image *image, uint32_t width, uint32_t height,
                                       uint32_t channels, ff_error *error);

/* Allocates at least `bytes`, for decoders that convert in place from a wider form. The pixels are
 * undefined afterwards. */
FF_MUST_USE ff_status ff_image_reserve(ff_image *image, uint64_t bytes, ff_error *error);

/* Fills the image from planes [channels, height, width] u8 (CIFAR's order). */
FF_MUST_USE ff_status ff_image_from_planes(ff_image *image, const uint8_t *planes, uint32_t width,
                                           uint32_t height, uint32_t channels, ff_error *error);

/* Three equal channels from one, in place. An image with 3 channels is unchanged. */
FF_MUST_USE ff_status ff_image_to_rgb(ff_image *image, ff_error *error);

/* Pillow's convert('L') of R, G, B, in place: L = (19595 R + 38470 G + 7471 B + 0x8000) >> 16
 * (libImaging/Convert.c, L24). An image with 1 channel is unchanged. */
void ff_image_to_gray(ff_image *image);

/* From native (1 or 3 channels) to `mode`, in place. FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_image_to_mode(ff_image *image, ff_image_mode mode, ff_error *error);

/* Releases the pixels and zeroes the image. NULL is accepted. */
void ff_image_free(ff_image *image);

#endif
