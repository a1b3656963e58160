/* An RGB picture in memory to draw on. Drawing outside the picture is clipped. */
#ifndef FF_LOADER_DRAW_CANVAS_H
#define FF_LOADER_DRAW_CANVAS_H

#include "format/base/memory.h"

typedef struct ff_color {
    uint8_t red, green, blue;
} ff_color;

/* rgb: [H,W,3] u8. */
typedef struct ff_canvas {
    unsigned width, height;
    uint8_t *rgb;
} ff_canvas;

FF_MUST_USE ff_status ff_canvas_create(ff_canvas *canvas, unsigned width, unsigned height,
                                       ff_color background, ff_error *error);
void ff_canvas_free(ff_canvas *canvas);

void ff_canvas_fill(ff_canvas *canvas, unsigned x, unsigned y, unsigned width, unsigned height,
                    ff_color color);

/* Text with its upper left corner at (x, y), each dot `scale` pixels wide. */
void ff_canvas_text(ff_canvas *canvas, unsigned x, unsigned y, unsigned scale, const char *text,
                    ff_color color);

/* Blends `color` over the canvas with opacity [height, width] from 0 to 255, rows `stride` bytes
 * apart. */
void ff_canvas_blend(ff_canvas *canvas, unsigned x, unsigned y, const uint8_t *opacity,
                     size_t stride, unsigned width, unsigned height, ff_color color);

/* Draws a picture [height, width, 3]: each pixel enlarged to `up` x `up`, or squares of `down` x
 * `down` averaged (one of the two is 1). */
void ff_canvas_picture(ff_canvas *canvas, unsigned x, unsigned y, const uint8_t *rgb,
                       unsigned height, unsigned width, unsigned up, unsigned down);

/* Encodes a PNG file in memory; the caller frees it. */
FF_MUST_USE ff_status ff_canvas_png(const ff_canvas *canvas, ff_buffer *png, ff_error *error);
/* Writes a PNG file atomically; "-" = standard output. */
FF_MUST_USE ff_status ff_canvas_write_png(const ff_canvas *canvas, const char *path,
                                          ff_error *error);

#endif
