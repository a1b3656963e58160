/* Parses a TIFF file's first directory and converts samples to pixels, as Pillow does
 * (TiffImagePlugin.py, OPEN_INFO and _setup; libImaging/Unpack.c and Convert.c; version 11, plus
 * what it lost since 9.4: signed 16 bits packed by a big-endian writer, planes of RGB with an
 * unspecified sample):
 *   grey, 1, 2, 4, 8 bits    scaled to 0..255, inverted where 0 is white
 *   grey, 12, 16, 32 bits    clipped to 0..255, floats truncated, never inverted
 *   grey with alpha          alpha dropped
 *   RGB, 8 or 16 bits        of 16 the high byte; further samples dropped, except that with
 *                            associated (premultiplied) alpha it is v * 255 / alpha
 *   palette                  its colour, the high byte of the map's values, black beyond its end
 *   CMYK, 8 or 16 bits       255 - K, less that of C, M, Y
 *   YCbCr                    by libtiff
 * Not read: CIE Lab, which Pillow converts with a colour management library. */
#ifndef FF_FFPACK_TIFF_IMAGE_H
#define FF_FFPACK_TIFF_IMAGE_H

#include "format/base/status.h"
#include "tools/ffpack/decode/tiff_directory.h"

enum { FF_TIFF_SAMPLES_MOST = 6, FF_TIFF_UNCOMPRESSED = 1, FF_TIFF_OLD_JPEG = 6, FF_TIFF_JPEG = 7 };

typedef enum ff_tiff_color {
    FF_TIFF_GREY,
    FF_TIFF_PALETTE,
    FF_TIFF_RGB,
    FF_TIFF_CMYK,
    FF_TIFF_YCBCR
} ff_tiff_color;

typedef enum ff_tiff_numbers { FF_TIFF_UNSIGNED, FF_TIFF_SIGNED, FF_TIFF_REAL } ff_tiff_numbers;

/* How a pixel is stored. */
typedef struct ff_tiff_layout {
    ff_tiff_color color;
    unsigned depth;   /* bits of a sample: 1, 2, 4, 8, 12, 16, 32 */
    unsigned samples; /* per pixel, 1 to FF_TIFF_SAMPLES_MOST */
    ff_tiff_numbers numbers;
    bool inverted;      /* 0 is white */
    bool reversed;      /* the first pixel is in a byte's lowest bits */
    bool premultiplied; /* RGB: the fourth sample is alpha, and the others contain it */
    bool big_endian;    /* samples of 16 and 32 bits */
    bool deep;          /* greys of 12 and 16 bits become u16, not clipped to u8 */
    uint8_t palette[256][3];
} ff_tiff_layout;

typedef struct ff_tiff_image {
    ff_tiff_file file;
    ff_tiff_layout layout;
    uint32_t width, height;
    unsigned compression, orientation;
    uint32_t extra_count,
        first_extra; /* samples in addition to the colours, and the meaning of the first */
    bool planes;     /* each sample in a separate plane */
    bool tiled;      /* else in strips */
    uint32_t block_width, block_height; /* of a tile or strip */
    ff_tiff_entry offsets; /* sizes of tiles or strips; count 0 if the tag is missing */
} ff_tiff_image;

/* Fails if Pillow would fail, or if the image cannot be read as Pillow reads it. */
FF_MUST_USE ff_status ff_tiff_read_image(ff_tiff_image *image, const uint8_t *bytes, size_t length,
                                         ff_error *error);

/* Bytes of a pixel that ff_tiff_unpack makes: its channels, 1 or 3; with `deep` 2. */
uint32_t ff_tiff_channels(const ff_tiff_layout *layout);

/* `count` pixels from the start of a row of samples [(count * samples * depth + 7) / 8]. */
void ff_tiff_unpack(const ff_tiff_layout *layout, const uint8_t *samples, uint32_t count,
                    uint8_t *pixels);

/* A row of `count` pixels whose samples (of whole bytes) are in planes[layout->samples], to
 * interleaved samples in `row`, for ff_tiff_unpack. */
void ff_tiff_interleave(const ff_tiff_layout *layout, const uint8_t *const *planes, uint32_t count,
                        uint8_t *row);

#endif
