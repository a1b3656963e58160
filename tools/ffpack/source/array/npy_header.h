/* The header of an .npy file, versions 1 to 3
 * (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html): 93 "NUMPY", version,
 * the length of the header (u16, from version 2 on u32), and a Python dict as text:
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
 * Arrays of objects are pickles: they are refused, never read. Thread rule: pure except for
 * reading.
 */
#ifndef FF_FFPACK_SOURCE_NPY_HEADER_H
#define FF_FFPACK_SOURCE_NPY_HEADER_H

#include "tools/ffpack/source/array/array.h"

#define FF_NPY_HEADER_LIMIT UINT32_C(65536)

/* Reads the header of the array in `bytes` bytes from `offset` of `fd`, and checks that it fills
 * them; `path` is for messages. Fills all of `array` except its part. FF_BAD_DATA naming path and
 * place. */
FF_MUST_USE ff_status ff_npy_read(int fd, const char *path, uint64_t offset, uint64_t bytes,
                                  ff_array *array, ff_error *error);

#endif
