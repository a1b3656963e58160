/* The EXIF orientation of a PNG as returned by Pillow's getexif (PngImagePlugin.py): from an eXIf
 * chunk, else from ImageMagick's text "Raw profile type exif", else from Adobe's XMP. The last of
 * each is used.
 *
 * Texts are unpacked to at most 1 MiB (Pillow's MAX_TEXT_CHUNK). Thread-safe. */
#ifndef FF_FFPACK_PNG_EXIF_H
#define FF_FFPACK_PNG_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* 1 to 8; 0 without one. `bytes` begin with the signature. 0 also when out of memory. */
unsigned ff_png_orientation(const uint8_t *bytes, size_t length);

#endif
