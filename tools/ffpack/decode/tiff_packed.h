/* Compressed TIFF images by libtiff, from memory, strip by strip or tile by tile, with Pillow's
 * checks of their sizes (TiffDecode.c, version 11). */
#ifndef FF_FFPACK_TIFF_PACKED_H
#define FF_FFPACK_TIFF_PACKED_H

#include "tools/ffpack/decode/tiff_image.h"
#include "tools/ffpack/image/image.h"

/* Decodes the pixels to `image`, as stored, with the layout's channels. No tile may have more
 * pixels than pixel_limit, nor an allocation of libtiff more than 8 bytes for each. FF_BAD_DATA
 * with libtiff's reason, FF_NO_MEMORY. Thread-safe. */
FF_MUST_USE ff_status ff_tiff_read_packed(const ff_tiff_image *of, uint64_t pixel_limit,
                                          ff_image *image, ff_error *error);

#endif
