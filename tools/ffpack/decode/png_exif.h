/* The EXIF orientation of a PNG as Pillow's getexif sees it (PngImagePlugin.py): of an eXIf chunk,
 * else of ImageMagick's text "Raw profile type exif", else of Adobe's XMP. The last of each counts.
 *
 * Texts are unpacked to at most 1 MiB (Pillow's MAX_TEXT_CHUNK). Thread-safe. */
#ifndef FF_FFPACK_PNG_EXIF_H
#define FF_FFPACK_PNG_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* 1 to 8, 0 where it has none. `bytes` begin with the signature. Where there is no memory: 0. */
unsigned ff_png_orientation(const uint8_t *bytes, size_t length);

#endif
