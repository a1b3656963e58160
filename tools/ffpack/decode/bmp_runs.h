/* RLE8 and RLE4 of BMP, as Pillow reads them (BmpImagePlugin.py). Thread rule: pure. */
#ifndef FF_FFPACK_BMP_RUNS_H
#define FF_FFPACK_BMP_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the runs that begin at `data` of the file's `length` bytes, of 4 bits per pixel (`four`)
 * or 8, to the indexes of `count` pixels in rows of `width`; as Pillow 13.0, or as 12.1
 * (`pillow_12`). False if the runs end earlier. */
bool ff_bmp_runs(const uint8_t *bytes, size_t length, size_t data, uint32_t width, bool four,
                 bool pillow_12, uint8_t *indexes, size_t count);

#endif
