/* From the decoded image to the packed shape: torchvision's Pad, Resize and CenterCrop on a Pillow
 * image, with the same bits (torchvision/transforms/functional.py, version 0.14), in this order:
 *
 * Pad to a square: d missing pixels are zeros, d / 2 before and d - d / 2 after. Resize(N): the
 * short side becomes N, the long one (int)(N * long / short), computed in double. Resize((H, W)):
 * exactly that. Resize(N, max_size=M), M > N: as Resize(N), but if the long side would exceed M,
 * the short one becomes (int)(M * N / long) of that long side, at least 1, and the long one M. A
 * bound M alone: if the long side exceeds M, it becomes M, and the short one (int)(M * short /
 * long), at least 1. CenterCrop((h, w)): an image smaller than the crop is first padded with zeros,
 * (deficit) / 2 before and (deficit + 1) / 2 after; then the offset is (size - crop) / 2, rounded
 * half to even.
 *
 * Thread rule: a spec is read-only; an ff_geometry_scratch belongs to one thread at a time. */
#ifndef FF_FFPACK_GEOMETRY_H
#define FF_FFPACK_GEOMETRY_H

#include "tools/ffpack/image/resize.h"

#include <stdbool.h>

typedef enum ff_resize_kind {
    FF_RESIZE_NONE,
    FF_RESIZE_SHORT, /* short side to `size` */
    FF_RESIZE_EXACT  /* to resize_height x resize_width, whatever the proportions */
} ff_resize_kind;

/* Zero-initialised: no change. */
typedef struct ff_geometry {
    bool pad_square;
    ff_resize_kind resize;
    uint32_t size;                        /* FF_RESIZE_SHORT */
    uint32_t resize_height, resize_width; /* FF_RESIZE_EXACT */
    ff_interpolation interpolation;
    ff_pass_order order;
    uint32_t max_side;                /* M; 0 = no bound; only without an exact resize and a crop */
    uint32_t crop_height, crop_width; /* both 0 = no crop */
} ff_geometry;

/* The values of --resize and --center-crop: "N" or "HxW". FF_USAGE naming `option` if the text is
 * neither, or a side is 0 or above FF_SIDE_LIMIT. */
FF_MUST_USE ff_status ff_geometry_parse_resize(ff_geometry *geometry, const char *option,
                                               const char *text, ff_error *error);
FF_MUST_USE ff_status ff_geometry_parse_crop(ff_geometry *geometry, const char *option,
                                             const char *text, ff_error *error);

/* Whether images of all sizes become one size: an exact resize, a crop, or squares of one side. */
bool ff_geometry_is_fixed(const ff_geometry *geometry);

/* Whether samples have different sizes, up to max_side. */
bool ff_geometry_is_variable(const ff_geometry *geometry);

/* The output size of an image of width x height (each >= 1). FF_BAD_DATA if a side would exceed
 * FF_SIDE_LIMIT. */
FF_MUST_USE ff_status ff_geometry_output_size(const ff_geometry *geometry, uint32_t width,
                                              uint32_t height, uint32_t *output_width,
                                              uint32_t *output_height, ff_error *error);

/* A CenterCrop to `wanted` on an axis of `size`: `length` pixels from `start` on, after `padding`
 * zeros. */
typedef struct ff_crop_span {
    uint32_t start, length, padding;
} ff_crop_span;
ff_crop_span ff_geometry_crop_span(uint32_t size, uint32_t wanted);

/* Zero-initialised `{0}`; released with ff_geometry_scratch_free. */
typedef struct ff_geometry_scratch {
    ff_resize_scratch resize;
    ff_image padded, resized, cropped;
} ff_geometry_scratch;

/* The pixels that ff_geometry_apply reads of an image of width x height. Failures: FF_BAD_DATA as
 * ff_geometry_output_size, FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_geometry_needed(const ff_geometry *geometry, uint32_t width,
                                         uint32_t height, ff_geometry_scratch *scratch,
                                         ff_region *needed, ff_error *error);

/* The largest of 8, 4, 2 and 1 by which an image of width x height may be divided before the
 * resize, so that no side falls below the resize's (Image.draft in PIL/JpegImagePlugin.py). The
 * result differs from the full image's. FF_BAD_DATA as ff_geometry_output_size. */
FF_MUST_USE ff_status ff_geometry_reduction(const ff_geometry *geometry, uint32_t width,
                                            uint32_t height, uint32_t *reduction, ff_error *error);

/* *output = the image after padding, resize and crop: either `input` itself, if nothing changes, or
 * an image inside `scratch`, valid until its next use. Any number of channels. The output's size
 * follows from an image of native_width x native_height: the input's size, unless it was reduced.
 * Failures: FF_BAD_DATA as ff_geometry_output_size, FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_geometry_apply(const ff_geometry *geometry, const ff_image *input,
                                        uint32_t native_width, uint32_t native_height,
                                        ff_geometry_scratch *scratch, const ff_image **output,
                                        ff_error *error);

/* NULL is accepted. */
void ff_geometry_scratch_free(ff_geometry_scratch *scratch);

#endif
