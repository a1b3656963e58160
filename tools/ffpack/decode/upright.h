/* Turns an image upright by its EXIF orientation (exif.h): PIL.ImageOps.exif_transpose. */
#ifndef FF_FFPACK_UPRIGHT_H
#define FF_FFPACK_UPRIGHT_H

#include "tools/ffpack/decode/decode.h"

/* Whether width and height are swapped (orientations 5 to 8). */
bool ff_upright_swaps(unsigned orientation);

/* Maps a region of the upright image to the stored one, of width x height as stored. */
ff_region ff_upright_stored_region(unsigned orientation, const ff_region *upright, uint32_t width,
                                   uint32_t height);

/* `upright` (another image than `stored`; reshaped) becomes the stored one turned by orientation 1
 * to 8. 1 or 3 channels. FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_upright_turn(const ff_image *stored, unsigned orientation,
                                      ff_image *upright, ff_error *error);

#endif
