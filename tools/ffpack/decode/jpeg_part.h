/* A region of a JPEG for callers that crop, or a reduced one for those who asked for that. For
 * jpeg.c. */
#ifndef FF_FFPACK_JPEG_PART_H
#define FF_FFPACK_JPEG_PART_H

#include "tools/ffpack/image/image.h"

#include <stdbool.h>

typedef struct ff_jpeg_part {
    uint32_t width, height, components; /* the frame header's; 1, 3 or 4 components */
    const ff_region *needed;            /* NULL: all */
    uint32_t reduction;                 /* 1, 2, 4 or 8; above 1 only without `needed` */
} ff_jpeg_part;

/* Writes the pixels of the part's region into the whole image, [height, width, components] u8 (each
 * side / reduction, rounded up), as the whole decode gives them; others stay undefined. CMYK as
 * stored. True where that was done, and the data runs up to the end of the image. False where it
 * cannot be, where anything is odd about the data, or memory is short: then the whole decode is to
 * find out what to say about it. */
bool ff_jpeg_read_part(const uint8_t *bytes, size_t length, const ff_jpeg_part *part,
                       uint8_t *pixels);

#endif
