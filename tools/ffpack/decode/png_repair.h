/* Completes a PNG whose pixels are truncated or broken as Pillow's LOAD_TRUNCATED_IMAGES does
 * (PngImagePlugin.py, ZipDecode.c): the rows before the damage, and 0 after them. Checksums of
 * pixels are ignored; checksums of header and palette are checked. */
#ifndef FF_FFPACK_PNG_REPAIR_H
#define FF_FFPACK_PNG_REPAIR_H

#include "format/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `*repaired` [*repaired_length] = a PNG with the same header and palette and all rows, released
 * with free(). `pixel_bits`: bits per pixel. The bytes must begin with the signature and a valid
 * header, with a size within the caller's limit. FF_BAD_DATA if even the beginning of the pixels is
 * missing, FF_NO_MEMORY; then *repaired = NULL. */
FF_MUST_USE ff_status ff_png_repair(const uint8_t *bytes, size_t length, uint32_t width,
                                    uint32_t height, unsigned pixel_bits, bool interlaced,
                                    uint8_t **repaired, size_t *repaired_length, ff_error *error);

#endif
