/* The interface between decode.c and the kinds of images: one entry per kind, defined in KIND.c,
 * listed in decode.c. For files of this folder only. */
#ifndef FF_FFPACK_DECODE_KINDS_H
#define FF_FFPACK_DECODE_KINDS_H

#include "tools/ffpack/decode/decode.h"

#include <stdbool.h>

#define FF_DECODE_WARNING_BYTES 256

/* What a kind decodes. `info`, `needed` and the image are as stored: decode.c handles
 * options->exif. */
typedef struct ff_decode_job {
    const uint8_t *bytes;
    size_t length;
    const ff_image_info *info; /* from probe, its size already checked against the limit */
    const ff_decode_options *options;
    const ff_region *needed; /* as in ff_decode; NULL = all */
    char *warning;           /* [FF_DECODE_WARNING_BYTES], empty; may be written */
} ff_decode_job;

typedef struct ff_decode_kind {
    const char *name; /* "JPEG" */

    /* Required. Whether the bytes begin like this kind. */
    bool (*matches)(const uint8_t *bytes, size_t length);

    /* Required. Fills width, height (both >= 1) and channels from the header. */
    ff_status (*probe)(const uint8_t *bytes, size_t length, ff_image_info *info, ff_error *error);

    /* Optional: the EXIF orientation, 1 to 8 or FF_EXIF_NONE, as returned by Pillow's getexif; for
     * bytes that probe accepts. */
    unsigned (*orientation)(const uint8_t *bytes, size_t length);
    bool always_upright; /* turned upright even without options->exif */

    /* Required. Leaves the image in job->options->mode. */
    ff_status (*decode)(const ff_decode_job *job, ff_image *image, ff_error *error);
} ff_decode_kind;

/* The warning for an image with a missing or broken end that options->allow_truncated accepts. */
void ff_decode_warn_filled(char *warning, const char *kind);

extern const ff_decode_kind ff_decode_jpeg;
extern const ff_decode_kind ff_decode_png;
extern const ff_decode_kind ff_decode_bmp;
extern const ff_decode_kind ff_decode_ppm;
extern const ff_decode_kind ff_decode_gif;
extern const ff_decode_kind ff_decode_webp;
extern const ff_decode_kind ff_decode_tiff;

#endif
