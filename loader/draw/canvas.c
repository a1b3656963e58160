#include "loader/draw/canvas.h"

#include "loader/draw/font.h"

#include <stdlib.h>

ff_status ff_canvas_create(ff_canvas *canvas, unsigned width, unsigned height, ff_color background,
                           ff_error *error) {
    *canvas = (ff_canvas){0};
    FF_TRY(ff_alloc(&canvas->rgb, (uint64_t)width * height, 3, "a picture", error));
    canvas->width = width;
    canvas->height = height;
    ff_canvas_fill(canvas, 0, 0, width, height, background);
    return FF_OK;
}

void ff_canvas_free(ff_canvas *canvas) {
    free(canvas->rgb);
    *canvas = (ff_canvas){0};
}

static void put(ff_canvas *canvas, unsigned x, unsigned y, ff_color color) {
    if (x >= canvas->width || y >= canvas->height) return;
    uint8_t *to = canvas->rgb + ((size_t)y * canvas->width + x) * 3;
    to[0] = color.red;
    to[1] = color.green;
    to[2] = color.blue;
}

void ff_canvas_fill(ff_canvas *canvas, unsigned x, unsigned y, unsigned width, unsigned height,
                    ff_color color) {
    for (unsigned row = 0; row < height; row++)
        for (unsigned column = 0; column < width; column++) put(canvas, x + column, y + row, color);
}

typedef struct pen {
    ff_canvas *canvas;
    unsigned x, y, scale;
    ff_color color;
} pen;

static void dot(void *context, unsigned x, unsigned y) {
    const pen *at = context;
    ff_canvas_fill(at->canvas, at->x + x * at->scale, at->y + y * at->scale, at->scale, at->scale,
                   at->color);
}

void ff_canvas_text(ff_canvas *canvas, unsigned x, unsigned y, unsigned scale, const char *text,
                    ff_color color) {
    pen at = {.canvas = canvas, .x = x, .y = y, .scale = scale, .color = color};
    ff_font_draw(text, dot, &at);
}

static uint8_t mixed(uint8_t below, uint8_t above, unsigned opacity) {
    return (uint8_t)((below * (255 - opacity) + above * opacity + 127) / 255);
}

void ff_canvas_blend(ff_canvas *canvas, unsigned x, unsigned y, const uint8_t *opacity,
                     size_t stride, unsigned width, unsigned height, ff_color color) {
    for (unsigned i = 0; i < height && y + i < canvas->height; i++)
        for (unsigned j = 0; j < width && x + j < canvas->width; j++) {
            uint8_t *to = canvas->rgb + ((size_t)(y + i) * canvas->width + x + j) * 3;
            unsigned share = opacity[i * stride + j];
            to[0] = mixed(to[0], color.red, share);
            to[1] = mixed(to[1], color.green, share);
            to[2] = mixed(to[2], color.blue, share);
        }
}

/* The mean of the square, which is cut off at the right and lower edge. */
static ff_color average(const uint8_t *rgb, unsigned height, unsigned width, unsigned y, unsigned x,
                        unsigned down) {
    uint64_t sum[3] = {0}, count = 0;
    for (unsigned i = y; i < y + down && i < height; i++)
        for (unsigned j = x; j < x + down && j < width; j++, count++)
            for (unsigned c = 0; c < 3; c++) sum[c] += rgb[((size_t)i * width + j) * 3 + c];
    return (ff_color){(uint8_t)((sum[0] + count / 2) / count),
                      (uint8_t)((sum[1] + count / 2) / count),
                      (uint8_t)((sum[2] + count / 2) / count)};
}

void ff_canvas_picture(ff_canvas *canvas, unsigned x, unsigned y, const uint8_t *rgb,
                       unsigned height, unsigned width, unsigned up, unsigned down) {
    for (unsigned i = 0; i < height; i += down)
        for (unsigned j = 0; j < width; j += down)
            ff_canvas_fill(canvas, x + j / down * up, y + i / down * up, up, up,
                           average(rgb, height, width, i, j, down));
}
