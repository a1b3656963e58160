#include "tools/ffinspect/grid.h"

#include "format/base/say.h"
#include "format/set.h"
#include "loader/draw/canvas.h"
#include "tools/ffinspect/sheet.h"

#include <inttypes.h>

enum {
    ENLARGED_SIDE = 144, /* small pictures are enlarged up to this */
    LARGEST_SIDE = 256,  /* and large ones reduced to it */
    NARROWEST_CELL = 84, /* wide enough for a name */
    MARGIN = 24,
    GAP = 14,
    CAPTION_SPACE = 6, /* between a picture and its caption */
    CAPTION_LINES = 2,
    TITLE_SPACE = 14, /* between a title and its pictures */
    SPLIT_SPACE = 26, /* between the pictures of a split and the next title */
};
#define SHEET_PIXELS_LIMIT (UINT64_C(1) << 27)

static const ff_color paper = {246, 246, 243}, frame = {206, 206, 200}, ink = {44, 44, 48},
                      pale_ink = {120, 120, 124};

/* ---- layout ---------------------------------------------------------------------------------- */

static ff_paragraph caption_of(const ff_sheet *drawn, const ff_sheet_section *split, uint64_t i,
                               unsigned scale, unsigned lines) {
    return (ff_paragraph){.text = split->caption[i],
                          .scale = scale,
                          .width = drawn->cell_width,
                          .lines = lines,
                          .centred = true};
}

/* Large letters if every name fits on a line; else small ones. A name that is still cut gets its
 * number, because another may have the same beginning. */
static ff_status fit_captions(ff_sheet *drawn, unsigned *height, ff_error *error) {
    ff_sheet_section *end = drawn->split + drawn->splits;
    ff_paragraph_size size = {0};
    drawn->caption_scale = 2;
    for (ff_sheet_section *split = drawn->split; split < end; split++)
        for (uint64_t i = 0; i < split->count && drawn->caption_scale == 2; i++) {
            ff_paragraph caption = caption_of(drawn, split, i, 2, 1);
            FF_TRY(ff_letters_measure(drawn->letters, &caption, &size, error));
            if (size.cut) drawn->caption_scale = 1;
        }
    *height = 0;
    for (ff_sheet_section *split = drawn->split; split < end; split++)
        for (uint64_t i = 0; i < split->count; i++) {
            ff_paragraph caption = caption_of(drawn, split, i, drawn->caption_scale, CAPTION_LINES);
            FF_TRY(ff_letters_measure(drawn->letters, &caption, &size, error));
            if (size.height > *height) *height = size.height;
            if (size.cut) FF_TRY(ff_sheet_number_caption(drawn, split, i, error));
        }
    return FF_OK;
}

static unsigned whole(uint32_t value, unsigned divisor) {
    return (value + divisor - 1) / divisor;
}

static ff_status plan(ff_sheet *drawn, ff_error *error) {
    uint32_t side =
        drawn->largest_height > drawn->largest_width ? drawn->largest_height : drawn->largest_width;
    unsigned up = side < ENLARGED_SIDE ? ENLARGED_SIDE / side : 1;
    unsigned down = side > LARGEST_SIDE ? whole(side, LARGEST_SIDE) : 1, caption_height;
    drawn->picture_height = whole(drawn->largest_height, down) * up;
    drawn->picture_width = whole(drawn->largest_width, down) * up;
    drawn->cell_width =
        drawn->picture_width > NARROWEST_CELL ? drawn->picture_width : NARROWEST_CELL;
    FF_TRY(fit_captions(drawn, &caption_height, error));
    drawn->cell_height = drawn->picture_height + CAPTION_SPACE + caption_height;
    return FF_OK;
}

/* Fits one picture: enlarged or reduced by an integer factor. */
static void fit(const ff_sheet *drawn, uint32_t height, uint32_t width, unsigned *up,
                unsigned *down) {
    unsigned high = drawn->picture_height / height, wide = drawn->picture_width / width;
    *up = high < wide ? high : wide;
    *down = 1;
    if (*up) return;
    *up = 1;
    high = whole(height, drawn->picture_height);
    wide = whole(width, drawn->picture_width);
    *down = high > wide ? high : wide;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static ff_status draw_cell(const ff_sheet *drawn, ff_sheet_section *split, ff_canvas *canvas,
                           uint64_t i, unsigned x, unsigned y, ff_error *error) {
    ff_view view;
    unsigned up, down;
    FF_TRY(ff_sheet_read(split, i, &view, error));
    ff_picture_convert(split->metadata, &split->scale, split->tensor, view.height, view.width,
                       split->rgb);
    fit(drawn, view.height, view.width, &up, &down);
    unsigned width = whole(view.width, down) * up, height = whole(view.height, down) * up;
    unsigned left = x + (drawn->cell_width - width) / 2;
    unsigned top = y + (drawn->picture_height - height) / 2;
    ff_canvas_fill(canvas, left - 1, top - 1, width + 2, height + 2, frame);
    ff_canvas_picture(canvas, left, top, split->rgb, view.height, view.width, up, down);
    ff_paragraph caption = caption_of(drawn, split, i, drawn->caption_scale, CAPTION_LINES);
    return ff_letters_draw(drawn->letters, &caption, canvas, x,
                           y + drawn->picture_height + CAPTION_SPACE, ink, error);
}

/* Large letters if they fit on one line, else small ones on as many lines as needed. */
static ff_status fit_title(const ff_sheet *drawn, const ff_sheet_section *split, unsigned width,
                           ff_paragraph *title, ff_paragraph_size *size, ff_error *error) {
    *title = (ff_paragraph){.text = split->title, .scale = 2, .width = width - 2 * MARGIN};
    FF_TRY(ff_letters_measure(drawn->letters, title, size, error));
    if (size->lines == 1) return FF_OK;
    title->scale = 1;
    return ff_letters_measure(drawn->letters, title, size, error);
}

/* Draws a split's title and pictures from `*y` on and advances `*y`; only the latter without a
 * canvas. */
static ff_status draw_section(const ff_sheet *drawn, ff_sheet_section *split, unsigned width,
                              uint64_t *y, ff_canvas *canvas, ff_error *error) {
    ff_paragraph title;
    ff_paragraph_size size;
    FF_TRY(fit_title(drawn, split, width, &title, &size, error));
    if (canvas)
        FF_TRY(
            ff_letters_draw(drawn->letters, &title, canvas, MARGIN, (unsigned)*y, pale_ink, error));
    *y += size.height + TITLE_SPACE;
    for (uint64_t i = 0; canvas && i < split->count; i++)
        FF_TRY(draw_cell(drawn, split, canvas, i,
                         MARGIN + (unsigned)(i % drawn->columns) * (drawn->cell_width + GAP),
                         (unsigned)(*y + i / drawn->columns * (drawn->cell_height + GAP)), error));
    *y += (uint64_t)split->rows * (drawn->cell_height + GAP) - GAP;
    return FF_OK;
}

static ff_status draw_sections(const ff_sheet *drawn, unsigned width, uint64_t *height,
                               ff_canvas *canvas, ff_error *error) {
    *height = MARGIN;
    for (size_t i = 0; i < drawn->splits; i++) {
        if (i) *height += SPLIT_SPACE;
        FF_TRY(draw_section(drawn, &drawn->split[i], width, height, canvas, error));
    }
    *height += MARGIN;
    return FF_OK;
}

static ff_status draw(ff_sheet *drawn, ff_canvas *canvas, ff_error *error) {
    uint64_t width = 2 * MARGIN + (uint64_t)drawn->columns * (drawn->cell_width + GAP) - GAP;
    uint64_t height = (uint64_t)drawn->rows * (drawn->cell_height + GAP);
    if (width * height <= SHEET_PIXELS_LIMIT)
        FF_TRY(draw_sections(drawn, (unsigned)width, &height, NULL, error));
    if (width * height > SHEET_PIXELS_LIMIT)
        return ff_fail(error, FF_USAGE,
                       "--grid: %ux%u pictures of %ux%u pixels would make a sheet of %" PRIu64
                       " x %" PRIu64 " pixels, more than %" PRIu64 " million; choose fewer",
                       drawn->rows, drawn->columns, drawn->picture_height, drawn->picture_width,
                       width, height, (uint64_t)SHEET_PIXELS_LIMIT / 1000000);
    FF_TRY(ff_canvas_create(canvas, (unsigned)width, (unsigned)height, paper, error));
    return draw_sections(drawn, (unsigned)width, &height, canvas, error);
}

static ff_status say(const ff_sheet *drawn, const ff_canvas *canvas, const char *path,
                     char **sentence, ff_error *error) {
    ff_buffer text = {0};
    ff_status status = ff_buffer_printf(&text, error, "%s: %s", path,
                                        ff_say_count(drawn->count, "sample", "samples").text);
    if (status == FF_OK && drawn->splits > 1)
        status = ff_buffer_printf(&text, error, " of %zu splits", drawn->splits);
    if (status == FF_OK)
        status = ff_buffer_printf(&text, error, " in %s of %u, %u x %u pixels; %s",
                                  ff_say_count(drawn->rows, "row", "rows").text, drawn->columns,
                                  canvas->width, canvas->height, drawn->split->scale.sentence);
    if (status == FF_OK && drawn->replaced)
        status =
            ff_buffer_printf(&text, error, "; names marked ~ are transliterated: %s",
                             ff_letters_has_library(drawn->letters)
                                 ? "no font here has their letters"
                                 : "to draw any script takes libpangocairo-1.0.so.0 and a font");
    *sentence = text.bytes; /* taken over */
    return status;
}

ff_status ff_inspect_grid(const ff_set *list, const ff_inspect_options *options, char **sentence,
                          ff_error *error) {
    ff_sheet drawn;
    ff_canvas canvas = {0};
    ff_status status;
    *sentence = NULL;
    FF_TRY_DONE(ff_sheet_open(&drawn, list, options, error));
    FF_TRY_DONE(plan(&drawn, error));
    FF_TRY_DONE(draw(&drawn, &canvas, error));
    FF_TRY_DONE(ff_canvas_write_png(&canvas, options->png, error));
    FF_TRY_DONE(say(&drawn, &canvas, options->png, sentence, error));
    status = FF_OK;
done:
    ff_canvas_free(&canvas);
    ff_sheet_free(&drawn);
    return status;
}
