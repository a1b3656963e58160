/* Room tools/ffpack/decode, floor 11: from an image file to pixels.
 *
 * decode.c detects the kind of a file and calls that kind's decoder. exif.c and png_exif.c find the
 * orientation, upright.c turns the pixels.
 *
 * May include format, tools/ffpack/image.
 *
 * Decodes image files, bit for bit as Pillow's Image.open(f).convert('RGB') or ('L').
 *
 * The kind is detected from the content, not the file name. Every kind has a file KIND.c, and an
 * entry (kinds.h) in the table of decode.c. This version reads JPEG (baseline and progressive;
 * grey, YCbCr, RGB, CMYK, YCCK), PNG (every colour type, depth and interlacing), WebP and GIF (the
 * first frame), TIFF, PPM, PGM, PBM and BMP. Colour profiles and gamma are ignored, and so is the
 * EXIF orientation unless requested, as in torchvision's loader; but TIFF is always turned upright,
 * as in Pillow.
 *
 * If versions of Pillow differ (tests/exact/README.md lists the differences), "Pillow" is 13.0, or
 * 12.1 with ffpack --pillow 12. 9.4, 11, 12.1 and 13.0 are compared; their bugs are not reproduced.
 *
 * Errors: one sentence without the path, which the caller adds in front. FF_BAD_DATA for anything
 * wrong with the bytes, FF_NO_MEMORY when out of memory. Thread rule: a decoder and an image belong
 * to one thread at a time; no global state. */
#ifndef FF_FFPACK_DECODE_H
#define FF_FFPACK_DECODE_H

#include "tools/ffpack/image/image.h"

#include <stdbool.h>

/* The kinds that are read, for messages. */
#define FF_DECODE_KINDS "JPEG, PNG, WebP, GIF, TIFF, PPM and BMP"

/* Facts from an image's header. */
typedef struct ff_image_info {
    const char *kind;       /* "JPEG", "PNG": static */
    uint32_t width, height; /* upright if ff_decode turns it, else as stored */
    uint32_t channels;      /* in FF_MODE_NATIVE: 1 or 3 */
    bool deep;              /* greys of 9 to 16 bits, without a sign */
} ff_image_info;

/* How to decode. Zero-initialised except for the limit: decode exactly, orientation as stored. */
typedef struct ff_decode_options {
    ff_image_mode mode;
    uint64_t
        pixel_limit; /* checked before anything is allocated; FF_PIXEL_LIMIT is the usual one */
    bool exif;       /* turn upright by the EXIF orientation (PIL.ImageOps.exif_transpose) */
    /* As Pillow's LOAD_TRUNCATED_IMAGES: missing or broken data after the header is filled as
     * Pillow fills it (grey or black), and ff_decoder_warning reports it. */
    bool allow_truncated;
    bool pillow_12; /* run-length BMPs as Pillow 12.1 and older */
    /* Greys of up to 16 bits as they are: a pixel is a u16 in native byte order, image->channels 2
     * bytes; `mode` is unused. Images that are not `deep` are refused with FF_USAGE. */
    bool deep;
    /* 1 (as 0), 2, 4 or 8: an image may come out with sides of 1 / reduction (rounded up), as in
     * Pillow's draft mode. Only for JPEGs; the pixels differ from decoding and resizing. */
    uint32_t reduction;
} ff_decode_options;

/* Reads the header only; allocates nothing except a PNG's unpacked EXIF, at most 1 MiB. Fails if
 * the bytes are not of a kind that this version reads, the header is broken or cut off, or width x
 * height exceeds options->pixel_limit. Success does not promise that the pixels after the header
 * are good. */
FF_MUST_USE ff_status ff_decode_probe(const uint8_t *bytes, size_t length,
                                      const ff_decode_options *options, ff_image_info *info,
                                      ff_error *error);

/* Whether an image that was decoded has an EXIF orientation other than 1, so that options->exif
 * matters. False for TIFFs, which are always turned upright. */
bool ff_decode_is_turned(const uint8_t *bytes, size_t length);

/* A guess from the first bytes of a file (FF_DECODE_GUESS_BYTES, or all). */
typedef enum ff_decode_guess {
    FF_DECODE_OTHER,  /* no image */
    FF_DECODE_READ,   /* probably an image of a kind that is read */
    FF_DECODE_UNREAD, /* an image of a kind that is not read */
} ff_decode_guess;
#define FF_DECODE_GUESS_BYTES 64

/* For files whose name does not show the kind: stricter than decoding, which takes any file that
 * begins with "BM" for a BMP. *unread = "HEIC", "AVIF", ... (static) with FF_DECODE_UNREAD. */
ff_decode_guess ff_decode_guess_kind(const uint8_t *bytes, size_t length, const char **unread);

/* Memory that is reused from image to image. */
typedef struct ff_decoder ff_decoder;

/* On failure *decoder = NULL. */
FF_MUST_USE ff_status ff_decoder_create(ff_decoder **decoder, ff_error *error);

/* NULL and *decoder = NULL are accepted; *decoder becomes NULL. */
void ff_decoder_destroy(ff_decoder **decoder);

/* Decodes a whole file in memory into `image` (reused, grown if needed). `needed` (may be NULL: all
 * of it; with options->exif a region of the upright image) is the region that the caller will read:
 * pixels outside it may stay undefined, but the image has its full size. A reduced image is read
 * completely. On failure the image's pixels and shape are undefined, but it can be reused.
 *
 * Refused like in Pillow: truncated data, and a JPEG without its end marker unless the last row was
 * complete before the library needed it. A PNG is also refused if the checksum of a chunk with
 * pixels or palette is wrong. A JPEG that is damaged but complete (stray bytes between markers, a
 * bad Huffman code, a lost restart marker) decodes to Pillow's pixels; then ff_decoder_warning
 * returns the library's message. */
FF_MUST_USE ff_status ff_decode(ff_decoder *decoder, const uint8_t *bytes, size_t length,
                                const ff_decode_options *options, const ff_region *needed,
                                ff_image *image, ff_error *error);

/* The warning about the last decoded image, as a sentence without the path; NULL = none. Valid
 * until the next ff_decode. */
const char *ff_decoder_warning(const ff_decoder *decoder);

#endif
