#include "tools/ffpack/decode/upright.h"

#include <string.h>

/* Every orientation, as the steps from the upright image to the stored one: swap x and y, then
 * mirror the stored axes. (Pillow, ImageOps.py and libImaging/Geometry.c) */
static const struct {
    bool swap, mirror_x, mirror_y;
} turns[] = {
    [2] = {false, true, false}, [3] = {false, true, true}, [4] = {false, false, true},
    [5] = {true, false, false}, [6] = {true, false, true}, [7] = {true, true, true},
    [8] = {true, true, false},
};

bool ff_upright_swaps(unsigned orientation) {
    return turns[orientation].swap;
}

ff_region ff_upright_stored_region(unsigned orientation, const ff_region *upright, uint32_t width,
                                   uint32_t height) {
    ff_region stored = *upright;
    if (turns[orientation].swap)
        stored = (ff_region){upright->top, upright->left, upright->height, upright->width};
    if (turns[orientation].mirror_x) stored.left = width - stored.left - stored.width;
    if (turns[orientation].mirror_y) stored.top = height - stored.top - stored.height;
    return stored;
}

/* A square of the upright image, small enough that its source rows stay in the cache. `right` and
 * `down` are the steps in the stored image for one pixel in the upright one. */
static void turn_square(const uint8_t *from, ptrdiff_t right, ptrdiff_t down, uint8_t *to,
                        size_t row_bytes, uint32_t width, uint32_t height, uint32_t channels) {
    for (uint32_t y = 0; y < height; y++, from += down, to += row_bytes) {
        const uint8_t *in = from;
        uint8_t *out = to;
        if (channels == 1) {
            for (uint32_t x = 0; x < width; x++, in += right) out[x] = *in;
        } else if (channels == 2) {
            for (uint32_t x = 0; x < width; x++, in += right, out += 2) memcpy(out, in, 2);
        } else {
            for (uint32_t x = 0; x < width; x++, in += right, out += 3) memcpy(out, in, 3);
        }
    }
}

ff_status ff_upright_turn(const ff_image *stored, unsigned orientation, ff_image *upright,
                          ff_error *error) {
    enum { SQUARE = 32 };
    bool swap = turns[orientation].swap;
    uint32_t channels = stored->channels;
    uint32_t width = swap ? stored->height : stored->width;
    uint32_t height = swap ? stored->width : stored->height;
    FF_TRY(ff_image_reshape(upright, width, height, channels, error));
    ptrdiff_t step_x = (ptrdiff_t)channels, step_y = (ptrdiff_t)stored->width * step_x;
    const uint8_t *first = stored->pixels;
    if (turns[orientation].mirror_x) {
        first += (ptrdiff_t)(stored->width - 1) * step_x;
        step_x = -step_x;
    }
    if (turns[orientation].mirror_y) {
        first += (ptrdiff_t)(stored->height - 1) * step_y;
        step_y = -step_y;
    }
    ptrdiff_t right = swap ? step_y : step_x, down = swap ? step_x : step_y;
    size_t row_bytes = (size_t)width * channels;
    for (uint32_t y = 0; y < height; y += SQUARE)
        for (uint32_t x = 0; x < width; x += SQUARE)
            turn_square(first + (ptrdiff_t)y * down + (ptrdiff_t)x * right, right, down,
                        upright->pixels + y * row_bytes + (size_t)x * channels, row_bytes,
                        width - x < SQUARE ? width - x : SQUARE,
                        height - y < SQUARE ? height - y : SQUARE, channels);
    return FF_OK;
}
