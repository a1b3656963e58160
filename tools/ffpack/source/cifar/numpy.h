/* Pickles with NumPy's arrays of numbers: every other import is refused by name.
 *
 * Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_NUMPY_H
#define FF_FFPACK_SOURCE_NUMPY_H

#include "format/pickle/pickle.h"
#include "tools/ffpack/source/array/array.h"

/* As ff_pickle_read. */
FF_MUST_USE ff_status ff_numpy_read(ff_pickle **pickle, const ff_pickle_file *at, ff_error *error);

/* Reads an array (without dimensions if the pickle never set its state). Its part is not set;
 * *decoded: whether its offset is in temporary space and not in the file. Its bytes are contiguous.
 */
ff_array ff_numpy_array(const ff_pickle *pickle, ff_pickle_value value, bool *decoded);

#endif
