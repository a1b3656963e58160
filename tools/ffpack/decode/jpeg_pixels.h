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
 * rounded up; CMYK as stored. Refused is what Pillow refuses: data that ends before the last row,
 * and what libjpeg cannot go on with (FF_BAD_DATA; FF_NO_MEMORY). With `fill` both give the rows
 * that were read, the others black or white, as Pillow's LOAD_TRUNCATED_IMAGES does. `warning`
 * [FF_DECODE_WARNING_BYTES] says what was odd about what is not refused; else it stays. */
FF_MUST_USE ff_status ff_jpeg_read(const uint8_t *bytes, size_t length, const ff_jpeg_frame *frame,
                                   uint32_t reduction, bool fill, uint8_t *pixels, char *warning,
                                   ff_error *error);

/* The pixels of a region of a baseline image into the whole one, as the whole read gives them;
 * others stay undefined. True where that was done, and the data runs up to the end marker. False
 * where it cannot be, where anything is odd about the data, or memory is short: then the whole read
 * is to find out what to say about it. */
bool ff_jpeg_read_part(const uint8_t *bytes, size_t length, const ff_jpeg_frame *frame,
                       const ff_region *needed, uint8_t *pixels);

#endif
