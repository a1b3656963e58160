/* A JPEG's pixels by libjpeg-turbo's API, which Pillow uses too. For jpeg.c, which has read the
 * header. Thread-safe. */
#ifndef FF_FFPACK_JPEG_PIXELS_H
#define FF_FFPACK_JPEG_PIXELS_H

#include "tools/ffpack/image/image.h"

#include <stdbool.h>

typedef struct ff_jpeg_frame {
    uint32_t width, height, components; /* the frame header's; 1, 3 or 4 components */
    bool progressive;
} ff_jpeg_frame;

/* Writes the whole image, [height, width, components] u8, each side / reduction (1, 2, 4 or 8),
 * rounded up; CMYK as stored. Refused as in Pillow: data that ends before the last row, and fatal
 * errors of libjpeg (FF_BAD_DATA; FF_NO_MEMORY). With `fill` both return the rows that were read
 * and the others black or white, as with Pillow's LOAD_TRUNCATED_IMAGES. `warning`
 * [FF_DECODE_WARNING_BYTES] gets a warning about an image that is not refused; else it is
 * unchanged. */
FF_MUST_USE ff_status ff_jpeg_read(const uint8_t *bytes, size_t length, const ff_jpeg_frame *frame,
                                   uint32_t reduction, bool fill, uint8_t *pixels, char *warning,
                                   ff_error *error);

/* Reads a region of a baseline image, with the same pixels as a full read; other pixels stay
 * undefined. True on success with data up to the end marker. False if this is not possible, the
 * data is unusual in any way, or memory is short: the caller then does the full read, which reports
 * the problem. */
bool ff_jpeg_read_part(const uint8_t *bytes, size_t length, const ff_jpeg_frame *frame,
                       const ff_region *needed, uint8_t *pixels);

#endif
