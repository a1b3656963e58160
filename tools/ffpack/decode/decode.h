/* Image files to pixels, bit for bit as Pillow's Image.open(f).convert('RGB') or ('L') gives them.
 *
 * The kind is found from the content; no file name is looked at. Every kind has a file of its own,
 * KIND.c, and an entry in the table of decode.c (kinds.h says what an entry holds).
 * This version reads JPEG (baseline and progressive; grey, YCbCr, RGB, CMYK, YCCK), PNG (every
 * colour type, depth and interlacing), WebP and GIF (the first frame), TIFF, PPM, PGM, PBM
 * and BMP.
 * Colour profiles and gamma are ignored, and so is the EXIF orientation unless it is asked for, as
 * by torchvision's loader; but TIFF is always turned upright, as Pillow does.
 *
 * "Pillow" is version 11 where versions differ (tests/exact/README.md says where). Debian 12's 9.4
 * and Debian 13's 11.1 are both compared with; what either does wrong is not followed.
 *
 * Errors: one sentence without the path, which the caller puts in front. FF_BAD_DATA for anything
 * that is wrong with the bytes, FF_NO_MEMORY where the machine has too little.
 * Thread rule: a decoder and an image belong to one thread at a time; no global state. */
#ifndef FF_FFPACK_DECODE_H
#define FF_FFPACK_DECODE_H

#include "tools/ffpack/image/image.h"

#include <stdbool.h>

/* The kinds that are read, for sentences. */
#define FF_DECODE_KINDS "JPEG, PNG, WebP, GIF, TIFF, PPM and BMP"

/* What an image's header says. */
typedef struct ff_image_info {
    const char *kind;       /* "JPEG", "PNG": static */
    uint32_t width, height; /* upright where ff_decode turns it so, else as stored */
    uint32_t channels;      /* in FF_MODE_NATIVE: 1 or 3 */
} ff_image_info;

/* How to decode. Zero-initialised but for the limit: everything exactly, upright as stored. */
typedef struct ff_decode_options {
    ff_image_mode mode;
    uint64_t
        pixel_limit; /* checked before anything is allocated; FF_PIXEL_LIMIT is the usual one */
    bool exif;       /* turn upright as the EXIF orientation says (PIL.ImageOps.exif_transpose) */
    /* As Pillow's LOAD_TRUNCATED_IMAGES: what is cut off or broken after the header is filled as
     * Pillow fills it (grey or black), and ff_decoder_warning tells. */
    bool allow_truncated;
    /* 1 (as 0), 2, 4 or 8: an image may come out with sides of 1 / reduction (rounded up), as
     * Pillow's draft mode gives it. Only JPEGs do; another way to smaller pixels, never the same
     * as decoding and resizing. */
    uint32_t reduction;
} ff_decode_options;

/* Reads the header only; allocates nothing (but what a PNG's EXIF unpacks to, at most 1 MiB). Fails
 * where the bytes are of no kind this version reads, the header is broken or cut off, or width x
 * height exceeds options->pixel_limit. A success says nothing about the pixels after the header.
 */
FF_MUST_USE ff_status ff_decode_probe(const uint8_t *bytes, size_t length,
                                      const ff_decode_options *options, ff_image_info *info,
                                      ff_error *error);

/* What a file is that begins with these bytes (FF_DECODE_GUESS_BYTES of them, or all). */
typedef enum ff_decode_guess {
    FF_DECODE_OTHER,  /* no image */
    FF_DECODE_READ,   /* an image that is read, as it looks */
    FF_DECODE_UNREAD, /* an image of a kind that is not read */
} ff_decode_guess;
#define FF_DECODE_GUESS_BYTES 64

/* A guess for files whose name does not say it: stricter than decoding, which takes any file that
 * begins with "BM" for a BMP. *unread = "HEIC", "AVIF", ... (static) with FF_DECODE_UNREAD. */
ff_decode_guess ff_decode_guess_kind(const uint8_t *bytes, size_t length, const char **unread);

/* The state of the libraries, one a thread, reused from image to image. */
typedef struct ff_decoder ff_decoder;

/* On failure *decoder = NULL. */
FF_MUST_USE ff_status ff_decoder_create(ff_decoder **decoder, ff_error *error);

/* NULL and *decoder = NULL are accepted; *decoder becomes NULL. */
void ff_decoder_destroy(ff_decoder **decoder);

/* Decodes a whole file lying in memory into `image` (reused, grown where needed). `needed` (may be
 * NULL: all of it; with options->exif a region of the upright image) is what the caller will read
 * of it: pixels outside of it may stay undefined, the image has its full size. An image that is
 * reduced is read as a whole. On failure the image's pixels and shape are undefined, but it can be
 * used again.
 *
 * What Pillow refuses is refused: truncated data, and a JPEG without its end marker unless the last
 * row came out before the library asked for it. A PNG is also refused where a checksum of a chunk
 * that holds pixels or palette is wrong. A JPEG that is damaged but complete (stray bytes between
 * markers, a bad Huffman code, a lost restart marker) decodes to the pixels that Pillow gives; then
 * ff_decoder_warning says what the library found. */
FF_MUST_USE ff_status ff_decode(ff_decoder *decoder, const uint8_t *bytes, size_t length,
                                const ff_decode_options *options, const ff_region *needed,
                                ff_image *image, ff_error *error);

/* What was odd in the last image that this decoder decoded, as a sentence without the path; NULL
 * where nothing was. Valid until the next ff_decode. */
const char *ff_decoder_warning(const ff_decoder *decoder);

#endif
