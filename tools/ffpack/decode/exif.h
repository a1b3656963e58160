/* The orientation in an EXIF record: a TIFF header and a directory of tags, of which tag 0x0112 is
 * the orientation of the stored image (EXIF 2.3, 4.6.4):
 *   1 upright   2 mirrored   3 upside down        4 mirrored, upside down
 *   5 mirrored, then turned left   6 turned left   7 mirrored, then turned right   8 turned right
 * (upright.h reverses it). Read as by Pillow's getexif: the first such tag is used (before 13.0,
 * the last), of any numeric type.
 *
 * More lenient than Pillow: a record without a TIFF header is ignored. */
#ifndef FF_FFPACK_EXIF_H
#define FF_FFPACK_EXIF_H

#include "tools/ffpack/decode/tiff_directory.h"

#define FF_EXIF_NONE    0u
#define FF_EXIF_UPRIGHT 1u

/* 1 to 8 (1 for an unknown one); 0 if the record has no orientation. `bytes` may begin with
 * "Exif\0\0". Reads only within the bytes, whatever they hold. Thread-safe. */
unsigned ff_exif_orientation(const uint8_t *bytes, size_t length);

/* The same for the directory at `offset` of a TIFF file. */
unsigned ff_exif_directory_orientation(const ff_tiff_file *file, uint64_t offset);

#endif
