#include "loader/draw/pango.h"

#include <dlfcn.h>
#include <stdlib.h>

/* The declarations that are used from cairo, Pango, GObject and fontconfig; their types are
 * opaque. */
typedef struct cairo_surface cairo_surface;
typedef struct cairo_context cairo_context;
typedef struct pango_layout pango_layout;
typedef struct pango_font pango_font;
typedef struct font_set {
    int count; /* more members follow */
} font_set;
enum {
    ALPHA = 2, /* CAIRO_FORMAT_A8: one byte per pixel */
    UNIT = 1024,
    WRAP_WORD_CHAR = 2,
    ELLIPSIZE_END = 3,
    ALIGN_CENTER = 1,
    FONTS_OF_SYSTEM = 0,
};

/* X(member, symbol, result, parameters); libpangocairo loads the others. */
#define FUNCTIONS(X)                                                                               \
    X(fonts, FcConfigGetFonts, font_set *, (void *, int))                                          \
    X(surface, cairo_image_surface_create, cairo_surface *, (int, int, int))                       \
    X(pixels, cairo_image_surface_get_data, uint8_t *, (cairo_surface *))                          \
    X(stride, cairo_image_surface_get_stride, int, (cairo_surface *))                              \
    X(flush, cairo_surface_flush, void, (cairo_surface *))                                         \
    X(free_surface, cairo_surface_destroy, void, (cairo_surface *))                                \
    X(context, cairo_create, cairo_context *, (cairo_surface *))                                   \
    X(status, cairo_status, int, (cairo_context *))                                                \
    X(move_to, cairo_move_to, void, (cairo_context *, double, double))                             \
    X(free_context, cairo_destroy, void, (cairo_context *))                                        \
    X(layout, pango_cairo_create_layout, pango_layout *, (cairo_context *))                        \
    X(set_text, pango_layout_set_text, void, (pango_layout *, const char *, int))                  \
    X(set_font, pango_layout_set_font_description, void, (pango_layout *, const pango_font *))     \
    X(set_width, pango_layout_set_width, void, (pango_layout *, int))                              \
    X(set_height, pango_layout_set_height, void, (pango_layout *, int))                            \
    X(set_wrap, pango_layout_set_wrap, void, (pango_layout *, int))                                \
    X(set_ellipsis, pango_layout_set_ellipsize, void, (pango_layout *, int))                       \
    X(set_alignment, pango_layout_set_alignment, void, (pango_layout *, int))                      \
    X(is_cut, pango_layout_is_ellipsized, int, (pango_layout *))                                   \
    X(unknown, pango_layout_get_unknown_glyphs_count, int, (pango_layout *))                       \
    X(lines, pango_layout_get_line_count, int, (pango_layout *))                                   \
    X(size, pango_layout_get_pixel_size, void, (pango_layout *, int *, int *))                     \
    X(show, pango_cairo_show_layout, void, (cairo_context *, pango_layout *))                      \
    X(font, pango_font_description_from_string, pango_font *, (const char *))                      \
    X(set_size, pango_font_description_set_absolute_size, void, (pango_font *, double))            \
    X(free_font, pango_font_description_free, void, (pango_font *))                                \
    X(unref, g_object_unref, void, (void *))

struct ff_pango {
#define MEMBER(member, symbol, result, parameters) result(*member) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

static bool find_functions(ff_pango *pango, void *library) {
#define FIND(member, symbol, result, parameters)                                                   \
    *(void **)&pango->member = dlsym(library, #symbol);                                            \
    if (!pango->member) return false;
    FUNCTIONS(FIND)
#undef FIND
    return true;
}

ff_status ff_pango_open(ff_pango **pango, ff_error *error) {
    *pango = NULL;
    /* The library stays open: GObject's types cannot be unloaded. */
    void *library = dlopen("libpangocairo-1.0.so.0", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) return FF_OK;
    FF_TRY(ff_alloc(pango, 1, sizeof **pango, "letters", error));
    const font_set *fonts = NULL;
    if (find_functions(*pango, library)) fonts = (*pango)->fonts(NULL, FONTS_OF_SYSTEM);
    if (!fonts || fonts->count == 0) ff_pango_close(pango);
    return FF_OK;
}

void ff_pango_close(ff_pango **pango) {
    free(*pango);
    *pango = NULL;
}

/* ---- paragraphs ------------------------------------------------------------------------------ */

/* Letters as bytes of opacity. */
typedef struct drawing {
    cairo_surface *surface;
    cairo_context *context;
    pango_layout *layout;
} drawing;

static void end(const ff_pango *pango, drawing *drawn) {
    if (drawn->layout) pango->unref(drawn->layout);
    if (drawn->context) pango->free_context(drawn->context);
    if (drawn->surface) pango->free_surface(drawn->surface);
}

static ff_status begin(const ff_pango *pango, const ff_paragraph *paragraph, unsigned width,
                       unsigned height, drawing *drawn, ff_error *error) {
    *drawn = (drawing){.surface = pango->surface(ALPHA, (int)width, (int)height)};
    drawn->context = pango->context(drawn->surface);
    if (pango->status(drawn->context) != 0) {
        end(pango, drawn);
        return ff_fail(error, FF_NO_MEMORY, "not enough memory to draw %u x %u pixels of text",
                       width, height);
    }
    drawn->layout = pango->layout(drawn->context);
    pango_font *font = pango->font("Sans");
    pango->set_size(font, (paragraph->scale == 1 ? 11 : 16) * UNIT);
    pango->set_font(drawn->layout, font);
    pango->free_font(font);
    pango->set_text(drawn->layout, paragraph->text, -1);
    pango->set_width(drawn->layout, (int)paragraph->width * UNIT);
    pango->set_wrap(drawn->layout, WRAP_WORD_CHAR);
    if (paragraph->centred) pango->set_alignment(drawn->layout, ALIGN_CENTER);
    if (paragraph->lines) {
        pango->set_height(drawn->layout, -(int)paragraph->lines);
        pango->set_ellipsis(drawn->layout, ELLIPSIZE_END);
    }
    return FF_OK;
}

bool ff_pango_knows(ff_pango *pango, const char *text) {
    drawing drawn;
    const ff_paragraph paragraph = {.text = text, .scale = 1, .width = 10000};
    if (begin(pango, &paragraph, 1, 1, &drawn, NULL) != FF_OK) return false;
    int unknown = pango->unknown(drawn.layout);
    end(pango, &drawn);
    return unknown == 0;
}

ff_status ff_pango_measure(ff_pango *pango, const ff_paragraph *paragraph, ff_paragraph_size *size,
                           ff_error *error) {
    drawing drawn;
    int width, height;
    FF_TRY(begin(pango, paragraph, 1, 1, &drawn, error));
    pango->size(drawn.layout, &width, &height);
    /* A letter wider than a line cannot be broken: it counts as cut. */
    *size = (ff_paragraph_size){
        .height = (unsigned)height,
        .lines = (unsigned)pango->lines(drawn.layout),
        .cut = pango->is_cut(drawn.layout) || width > (int)paragraph->width,
    };
    end(pango, &drawn);
    return FF_OK;
}

ff_status ff_pango_draw(ff_pango *pango, const ff_paragraph *paragraph, ff_canvas *canvas,
                        unsigned x, unsigned y, ff_color color, ff_error *error) {
    drawing drawn;
    ff_paragraph_size size;
    FF_TRY(ff_pango_measure(pango, paragraph, &size, error));
    const unsigned width = paragraph->width + 2 * FF_LETTERS_OVERHANG,
                   height = size.height + 2 * FF_LETTERS_OVERHANG;
    FF_TRY(begin(pango, paragraph, width, height, &drawn, error));
    pango->move_to(drawn.context, FF_LETTERS_OVERHANG, FF_LETTERS_OVERHANG);
    pango->show(drawn.context, drawn.layout);
    pango->flush(drawn.surface);
    ff_canvas_blend(canvas, x - FF_LETTERS_OVERHANG, y - FF_LETTERS_OVERHANG,
                    pango->pixels(drawn.surface), (size_t)pango->stride(drawn.surface), width,
                    height, color);
    end(pango, &drawn);
    return FF_OK;
}
