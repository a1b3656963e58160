#include "tools/ffinspect/grid.h"

#include "format/base/interrupt.h"
#include "loader/order.h"
#include "tools/ffinspect/access.h"
#include "tools/ffinspect/canvas.h"
#include "tools/ffinspect/font.h"
#include "tools/ffinspect/label.h"
#include "tools/ffinspect/picture.h"
#include "tools/ffinspect/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENLARGED_SIDE = 144, /* small pictures are enlarged up to this */
    LARGEST_SIDE = 256,  /* and large ones reduced to it */
    NARROWEST_CELL = 84, /* room for a name */
    MARGIN = 24,
    GAP = 14,
    CAPTION_SPACE = 6, /* between a picture and its caption */
    TITLE_SCALE = 2,
    TITLE_SPACE = 14,
};
#define SHEET_PIXELS_LIMIT (UINT64_C(1) << 27)

static const ff_color paper = {246, 246, 243}, frame = {206, 206, 200}, ink = {44, 44, 48},
                      pale_ink = {120, 120, 124};

/* The samples of a sheet, and everything that its layout needs. */
typedef struct sheet {
    ff_dataset *dataset;
    ff_reader *reader;
    const ff_metadata *metadata;
    unsigned rows, columns;
    uint64_t count; /* <= rows * columns */
    uint64_t *number;
    char **caption;
    uint32_t largest_height, largest_width; /* of the chosen samples */
    unsigned picture_height, picture_width; /* room for one */
    unsigned cell_height, cell_width, caption_scale;
    ff_picture_scale scale;
    void *tensor;
    uint8_t *rgb;
} sheet;

static void free_sheet(sheet *drawn) {
    for (uint64_t i = 0; drawn->caption && i < drawn->count; i++) free(drawn->caption[i]);
    free(drawn->caption);
    free(drawn->number);
    free(drawn->tensor);
    free(drawn->rgb);
    ff_reader_close(&drawn->reader);
}

static ff_status choose(sheet *drawn, const ff_inspect_options *options, ff_error *error) {
    uint64_t all = ff_dataset_count(drawn->dataset);
    FF_TRY(ff_inspect_grid_size(options->grid ? options->grid : "4x8", &drawn->rows,
                                &drawn->columns, error));
    drawn->count = (uint64_t)drawn->rows * drawn->columns;
    if (drawn->count > all) drawn->count = all;
    if (drawn->count < drawn->columns) drawn->columns = (unsigned)drawn->count;
    drawn->rows = (unsigned)((drawn->count + drawn->columns - 1) / drawn->columns);
    FF_TRY(ff_alloc(&drawn->number, drawn->count, sizeof *drawn->number, "a contact sheet", error));
    ff_permutation permutation;
    ff_permutation_init(&permutation, all, (uint64_t)options->seed, 0, 0);
    for (uint64_t i = 0; i < drawn->count; i++)
        drawn->number[i] =
            options->seed == FF_INSPECT_FIRST_SAMPLES ? i : ff_permutation_at(&permutation, i, 0);
    return FF_OK;
}

static ff_status read_one(sheet *drawn, uint64_t i, ff_view *view, ff_error *error) {
    FF_TRY(ff_interrupt_check(error));
    FF_TRY(ff_reader_sample(drawn->reader, drawn->number[i], view, error));
    return ff_inspect_copy(drawn->dataset, view, drawn->tensor, error);
}

/* The first pass: the largest picture, and the range of values where the scale depends on it. */
static ff_status measure(sheet *drawn, ff_error *error) {
    const ff_metadata *metadata = drawn->metadata;
    double minimum = 1e300, maximum = -1e300;
    bool needs_range = metadata->dtype != FF_U8 &&
                       !(ff_dtype_is_float(metadata->dtype) && metadata->statistics_count);
    for (uint64_t i = 0; i < drawn->count; i++) {
        ff_entry entry;
        FF_TRY(ff_dataset_entry(drawn->dataset, drawn->number[i], &entry, error));
        if (entry.height > drawn->largest_height) drawn->largest_height = entry.height;
        if (entry.width > drawn->largest_width) drawn->largest_width = entry.width;
    }
    uint64_t bytes =
        ff_metadata_tensor_bytes(metadata, drawn->largest_height, drawn->largest_width);
    FF_TRY(ff_alloc_aligned(&drawn->tensor, bytes, 1, 0, "a sample", error));
    FF_TRY(ff_alloc(&drawn->rgb, (uint64_t)drawn->largest_height * drawn->largest_width, 3,
                    "a picture", error));
    for (uint64_t i = 0; needs_range && i < drawn->count; i++) {
        ff_view view;
        FF_TRY(read_one(drawn, i, &view, error));
        ff_picture_range(metadata, drawn->tensor, view.height, view.width, &minimum, &maximum);
    }
    drawn->scale = ff_picture_choose_scale(metadata, minimum, maximum);
    return FF_OK;
}

/* The named label field, else the first one with classes, else any; false where there is none. */
static ff_status choose_field(const sheet *drawn, const char *name, bool *found, size_t *field,
                              ff_error *error) {
    const ff_metadata *metadata = drawn->metadata;
    *found = metadata->field_count > 0;
    *field = 0;
    if (name) return ff_dataset_field(drawn->dataset, name, field, error);
    static const ff_field_kind wanted[] = {FF_FIELD_CLASS, FF_FIELD_MULTI_HOT, FF_FIELD_SOFT};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < metadata->field_count; i++)
            if (metadata->field[i].kind == wanted[k]) {
                *field = i;
                return FF_OK;
            }
    return FF_OK;
}

static ff_status read_captions(sheet *drawn, const char *label, ff_error *error) {
    size_t field;
    bool found;
    FF_TRY(choose_field(drawn, label, &found, &field, error));
    FF_TRY(ff_alloc(&drawn->caption, drawn->count, sizeof *drawn->caption, "captions", error));
    for (uint64_t i = 0; i < drawn->count; i++) {
        ff_buffer text = {0};
        ff_status status = found ? ff_inspect_caption(&text, drawn->reader, drawn->dataset,
                                                      drawn->number[i], field, error)
                                 : ff_buffer_printf(&text, error, "%" PRIu64, drawn->number[i]);
        drawn->caption[i] = text.bytes; /* taken over */
        FF_TRY(status);
    }
    return FF_OK;
}

/* ---- layout ---------------------------------------------------------------------------------- */

static unsigned whole(uint32_t value, unsigned divisor) {
    return (value + divisor - 1) / divisor;
}

static void plan(sheet *drawn) {
    uint32_t side =
        drawn->largest_height > drawn->largest_width ? drawn->largest_height : drawn->largest_width;
    unsigned up = side < ENLARGED_SIDE ? ENLARGED_SIDE / side : 1;
    unsigned down = side > LARGEST_SIDE ? whole(side, LARGEST_SIDE) : 1;
    drawn->picture_height = whole(drawn->largest_height, down) * up;
    drawn->picture_width = whole(drawn->largest_width, down) * up;
    drawn->cell_width =
        drawn->picture_width > NARROWEST_CELL ? drawn->picture_width : NARROWEST_CELL;
    /* Large letters where every name fits. */
    drawn->caption_scale = 2;
    for (uint64_t i = 0; i < drawn->count; i++)
        if (2 * ff_font_width(drawn->caption[i]) > drawn->cell_width) drawn->caption_scale = 1;
    drawn->cell_height =
        drawn->picture_height + CAPTION_SPACE + FF_FONT_HEIGHT * drawn->caption_scale;
}

/* How one picture fits the room: enlarged or reduced by a whole number. */
static void fit(const sheet *drawn, uint32_t height, uint32_t width, unsigned *up, unsigned *down) {
    unsigned high = drawn->picture_height / height, wide = drawn->picture_width / width;
    *up = high < wide ? high : wide;
    *down = 1;
    if (*up) return;
    *up = 1;
    high = whole(height, drawn->picture_height);
    wide = whole(width, drawn->picture_width);
    *down = high > wide ? high : wide;
}

static ff_status draw_centered(ff_canvas *canvas, unsigned x, unsigned y, unsigned width,
                               unsigned scale, const char *text, ff_error *error) {
    ff_buffer fitted = {0};
    ff_status status = ff_font_fit(&fitted, text, width / scale, error);
    if (status == FF_OK)
        ff_canvas_text(canvas, x + (width - ff_font_width(fitted.bytes) * scale) / 2, y, scale,
                       fitted.bytes, ink);
    ff_buffer_free(&fitted);
    return status;
}

static ff_status draw_cell(sheet *drawn, ff_canvas *canvas, uint64_t i, unsigned x, unsigned y,
                           ff_error *error) {
    ff_view view;
    unsigned up, down;
    FF_TRY(read_one(drawn, i, &view, error));
    ff_picture_convert(drawn->metadata, &drawn->scale, drawn->tensor, view.height, view.width,
                       drawn->rgb);
    fit(drawn, view.height, view.width, &up, &down);
    unsigned width = whole(view.width, down) * up, height = whole(view.height, down) * up;
    unsigned left = x + (drawn->cell_width - width) / 2;
    unsigned top = y + (drawn->picture_height - height) / 2;
    ff_canvas_fill(canvas, left - 1, top - 1, width + 2, height + 2, frame);
    ff_canvas_picture(canvas, left, top, drawn->rgb, view.height, view.width, up, down);
    return draw_centered(canvas, x, y + drawn->picture_height + CAPTION_SPACE, drawn->cell_width,
                         drawn->caption_scale, drawn->caption[i], error);
}

static ff_status draw_title(const sheet *drawn, ff_canvas *canvas, const char *name,
                            ff_error *error) {
    const ff_metadata *metadata = drawn->metadata;
    ff_buffer text = {0}, fitted = {0};
    ff_status status = ff_buffer_printf(
        &text, error, "%s   %" PRIu64 " of %" PRIu64 " samples, %s%u x %u, %u channel%s, %s", name,
        drawn->count, ff_dataset_count(drawn->dataset), metadata->variable_size ? "up to " : "",
        metadata->height, metadata->width, metadata->channels, metadata->channels == 1 ? "" : "s",
        ff_dtype_name(metadata->dtype));
    if (status == FF_OK)
        status =
            ff_font_fit(&fitted, text.bytes, (canvas->width - 2 * MARGIN) / TITLE_SCALE, error);
    if (status == FF_OK)
        ff_canvas_text(canvas, MARGIN, MARGIN, TITLE_SCALE, fitted.bytes, pale_ink);
    ff_buffer_free(&text);
    ff_buffer_free(&fitted);
    return status;
}

static ff_status draw(sheet *drawn, const char *name, ff_canvas *canvas, ff_error *error) {
    unsigned top = MARGIN + FF_FONT_HEIGHT * TITLE_SCALE + TITLE_SPACE;
    uint64_t width = 2 * MARGIN + (uint64_t)drawn->columns * (drawn->cell_width + GAP) - GAP;
    uint64_t height = top + MARGIN + (uint64_t)drawn->rows * (drawn->cell_height + GAP) - GAP;
    if (width * height > SHEET_PIXELS_LIMIT)
        return ff_fail(error, FF_USAGE,
                       "--grid: %ux%u pictures of %ux%u pixels would make a sheet of %" PRIu64
                       " x %" PRIu64 " pixels, more than %" PRIu64 " million; choose fewer",
                       drawn->rows, drawn->columns, drawn->picture_height, drawn->picture_width,
                       width, height, (uint64_t)SHEET_PIXELS_LIMIT / 1000000);
    FF_TRY(ff_canvas_create(canvas, (unsigned)width, (unsigned)height, paper, error));
    FF_TRY(draw_title(drawn, canvas, name, error));
    for (uint64_t i = 0; i < drawn->count; i++)
        FF_TRY(draw_cell(drawn, canvas, i,
                         MARGIN + (unsigned)(i % drawn->columns) * (drawn->cell_width + GAP),
                         top + (unsigned)(i / drawn->columns) * (drawn->cell_height + GAP), error));
    return FF_OK;
}

ff_status ff_inspect_grid(ff_dataset *dataset, const char *name, const ff_inspect_options *options,
                          char **sentence, ff_error *error) {
    sheet drawn = {.dataset = dataset, .metadata = ff_dataset_metadata(dataset)};
    ff_canvas canvas = {0};
    ff_status status;
    *sentence = NULL;
    FF_TRY_DONE(choose(&drawn, options, error));
    FF_TRY_DONE(ff_reader_open(&drawn.reader, dataset, error));
    FF_TRY_DONE(read_captions(&drawn, options->label, error));
    FF_TRY_DONE(measure(&drawn, error));
    plan(&drawn);
    FF_TRY_DONE(draw(&drawn, name, &canvas, error));
    FF_TRY_DONE(ff_canvas_write_png(&canvas, options->png, error));
    FF_TRY_DONE(ff_format(sentence, error,
                          "%s: %" PRIu64 " samples in %u row%s of %u, %u x %u pixels; %s",
                          options->png, drawn.count, drawn.rows, drawn.rows == 1 ? "" : "s",
                          drawn.columns, canvas.width, canvas.height, drawn.scale.sentence));
done:
    ff_canvas_free(&canvas);
    free_sheet(&drawn);
    return status;
}
