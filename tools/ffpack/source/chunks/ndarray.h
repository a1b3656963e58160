/* Images that MDS keeps as NumPy arrays of uint8. A column's encoding is "ndarray",
 * "ndarray:uint8", or with a shape, "ndarray:uint8:32,32,3". What the encoding does not state, each
 * value begins with:
 *
 *     u8: the dtype, 8 = uint8
 *     u8: 4 times the number of axes, plus 0 to 3: 1, 2, 4 or 8 bytes for each length of an axis
 *     the lengths, little-endian; then the array's values in C order
 *
 * An image has the axes H,W; H,W,1 or H,W,3; or, if the last axis is neither 1 nor 3 long, 1,H,W or
 * 3,H,W. Thread rule: pure. */
#ifndef FF_FFPACK_SOURCE_NDARRAY_H
#define FF_FFPACK_SOURCE_NDARRAY_H

#include "tools/ffpack/source/chunks/chunks.h"

/* The form of a column with this encoding: FF_CHUNK_IMAGE if its shape is an image's,
 * FF_CHUNK_ARRAY without a shape, else FF_CHUNK_OTHER. */
ff_chunk_form ff_ndarray_form(const char *encoding);
/* part->column is the encoding. */
ff_source_unwrap ff_ndarray_unwrap;

#endif
