#include "loader/draw/contact.h"

#include "format/base/readable.h"
#include "format/disk/class_name.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENLARGED_SIDE = 144, /* small pictures are enlarged up to this */
    LARGEST_SIDE = 256,  /* large pictures are reduced to this */
    NARROWEST_CELL = 84, /* wide enough for a name */
    MARGIN = 24,
    GAP = 14,
    CAPTION_SPACE = 6, /* between a picture and its caption */
    CAPTION_LINES = 2,
    PARTS_LINES = 3,  /* for a caption of several parts */
    TITLE_SPACE = 14, /* between a title and its pictures */
    SPLIT_SPACE = 26, /* between the pictures of a section and the next title */
};
#define SHEET_PIXELS_LIMIT (UINT64_C(1) << 27)

static const ff_color paper = {246, 246, 243}, frame = {206, 206, 200}, ink = {44, 44, 48},
                      pale_ink = {120, 120, 124};

/* A section's text, in letters that can be drawn. */
typedef struct written {
    char *title;
    char **caption; /* [count] */
    unsigned rows;
} written;

typedef struct sheet {
    const ff_contact *contact;
    ff_letters *letters;
    written *section; /* [contact->sections] */
    bool transliterated;
    unsigned rows, picture_height, picture_width; /* space for a picture */
    unsigned cell_height, cell_width, caption_scale;
} sheet;

/* ---- text ------------------------------------------------------------------------------------ */

/* The title is transliterated to ASCII and marked if the letters cannot draw it. */
static ff_status write_title(sheet *drawn, size_t section, ff_error *error) {
    const char *title = drawn->contact->section[section].title;
    ff_buffer text = {0};
    ff_status status;
    if (ff_letters_know(drawn->letters, title))
        return ff_copy_string(&drawn->section[section].title, title, error);
    drawn->transliterated = true;
    FF_TRY_DONE(ff_buffer_printf(&text, error, "~"));
    FF_TRY_DONE(ff_readable_ascii(&text, title, error));
done:
    drawn->section[section].title = text.bytes; /* ownership moves */
    return status;
}

static ff_status write_caption(sheet *drawn, size_t section, uint64_t i, unsigned how,
                               ff_error *error) {
    const ff_contact *contact = drawn->contact;
    char **caption = &drawn->section[section].caption[i];
    ff_buffer text = {0};
    ff_status status = contact->caption(contact->context, section, i, how, &text, error);
    if (status == FF_OK && !ff_letters_know(drawn->letters, text.bytes)) {
        ff_buffer_free(&text);
        status = contact->caption(contact->context, section, i, how | FF_NAME_ASCII, &text, error);
        drawn->transliterated = true;
    }
    free(*caption);
    *caption = text.bytes; /* ownership moves */
    return status;
}

static ff_status write_texts(sheet *drawn, ff_error *error) {
    const ff_contact *contact = drawn->contact;
    FF_TRY(ff_alloc(&drawn->section, contact->sections, sizeof *drawn->section, "captions", error));
    for (size_t s = 0; s < contact->sections; s++) {
        const uint64_t count = contact->section[s].count;
        written *section = &drawn->section[s];
        section->rows = (unsigned)((count + contact->columns - 1) / contact->columns);
        drawn->rows += section->rows;
        FF_TRY(write_title(drawn, s, error));
        FF_TRY(ff_alloc(&section->caption, count, sizeof *section->caption, "captions", error));
        for (uint64_t i = 0; i < count; i++) FF_TRY(write_caption(drawn, s, i, 0, error));
    }
    return FF_OK;
}

static void free_texts(sheet *drawn) {
    for (size_t s = 0; drawn->section && s < drawn->contact->sections; s++) {
        written *section = &drawn->section[s];
        for (uint64_t i = 0; section->caption && i < drawn->contact->section[s].count; i++)
            free(section->caption[i]);
        free(section->caption);
        free(section->title);
    }
    free(drawn->section);
}

/* ---- layout ---------------------------------------------------------------------------------- */

static ff_paragraph caption_of(const sheet *drawn, size_t section, uint64_t i, unsigned scale,
                               unsigned lines) {
    return (ff_paragraph){.text = drawn->section[section].caption[i],
                          .scale = scale,
                          .width = drawn->cell_width,
                          .lines = lines,
                          .centred = true};
}

/* Writes a caption with numbers, and with shorter names until it fits. */
static ff_status shorten(sheet *drawn, size_t section, uint64_t i, unsigned lines,
                         ff_paragraph_size *size, ff_error *error) {
    static const unsigned most[] = {40, 32, 24, 20, 16, 13, 10, 8, 6, 5, 4, 3};
    for (size_t k = 0; k < sizeof most / sizeof *most && size->cut; k++) {
        FF_TRY(
            write_caption(drawn, section, i, FF_NAME_NUMBERED | FF_NAME_AT_MOST(most[k]), error));
        const ff_paragraph caption = caption_of(drawn, section, i, drawn->caption_scale, lines);
        FF_TRY(ff_letters_measure(drawn->letters, &caption, size, error));
    }
    return FF_OK;
}

/* Uses large letters if every name fits on a line, else small ones. A name that is still cut gets
 * its number, because another name may have the same beginning. */
static ff_status fit_captions(sheet *drawn, unsigned *height, ff_error *error) {
    const ff_contact *contact = drawn->contact;
    const unsigned lines = contact->parts ? PARTS_LINES : CAPTION_LINES;
    ff_paragraph_size size = {0};
    drawn->caption_scale = 2;
    for (size_t s = 0; s < contact->sections; s++)
        for (uint64_t i = 0; i < contact->section[s].count && drawn->caption_scale == 2; i++) {
            ff_paragraph caption = caption_of(drawn, s, i, 2, 1);
            FF_TRY(ff_letters_measure(drawn->letters, &caption, &size, error));
            if (size.cut) drawn->caption_scale = 1;
        }
    *height = 0;
    for (size_t s = 0; s < contact->sections; s++)
        for (uint64_t i = 0; i < contact->section[s].count; i++) {
            ff_paragraph caption = caption_of(drawn, s, i, drawn->caption_scale, lines);
            FF_TRY(ff_letters_measure(drawn->letters, &caption, &size, error));
            if (contact->parts) FF_TRY(shorten(drawn, s, i, lines, &size, error));
            if (size.height > *height) *height = size.height;
            if (size.cut && !contact->parts)
                FF_TRY(write_caption(drawn, s, i, FF_NAME_NUMBERED, error));
        }
    return FF_OK;
}

static unsigned whole(uint32_t value, unsigned divisor) {
    return (value + divisor - 1) / divisor;
}

static ff_status plan(sheet *drawn, ff_error *error) {
    const uint32_t height = drawn->contact->height, width = drawn->contact->width;
    const uint32_t side = height > width ? height : width;
    unsigned up = side < ENLARGED_SIDE ? ENLARGED_SIDE / side : 1;
    unsigned down = side > LARGEST_SIDE ? whole(side, LARGEST_SIDE) : 1, caption_height;
    drawn->picture_height = whole(height, down) * up;
    drawn->picture_width = whole(width, down) * up;
    drawn->cell_width =
        drawn->picture_width > NARROWEST_CELL ? drawn->picture_width : NARROWEST_CELL;
    FF_TRY(fit_captions(drawn, &caption_height, error));
    drawn->cell_height = drawn->picture_height + CAPTION_SPACE + caption_height;
    return FF_OK;
}

/* Fits one picture: enlarged or reduced by an integer factor. */
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

/* ---- drawing --------------------------------------------------------------------------------- */

static ff_status draw_cell(const sheet *drawn, size_t section, ff_canvas *canvas, uint64_t i,
                           unsigned x, unsigned y, ff_error *error) {
    const ff_contact *contact = drawn->contact;
    ff_contact_picture picture;
    unsigned up, down;
    FF_TRY(contact->picture(contact->context, section, i, &picture, error));
    fit(drawn, picture.height, picture.width, &up, &down);
    unsigned width = whole(picture.width, down) * up, height = whole(picture.height, down) * up;
    unsigned left = x + (drawn->cell_width - width) / 2;
    unsigned top = y + (drawn->picture_height - height) / 2;
    ff_canvas_fill(canvas, left - 1, top - 1, width + 2, height + 2, frame);
    ff_canvas_picture(canvas, left, top, picture.rgb, picture.height, picture.width, up, down);
    ff_paragraph caption = caption_of(drawn, section, i, drawn->caption_scale,
                                      contact->parts ? PARTS_LINES : CAPTION_LINES);
    return ff_letters_draw(drawn->letters, &caption, canvas, x,
                           y + drawn->picture_height + CAPTION_SPACE, ink, error);
}

/* Uses large letters if they fit on one line, else small ones on as many lines as needed. */
static ff_status fit_title(const sheet *drawn, size_t section, unsigned width, ff_paragraph *title,
                           ff_paragraph_size *size, ff_error *error) {
    *title = (ff_paragraph){
        .text = drawn->section[section].title, .scale = 2, .width = width - 2 * MARGIN};
    FF_TRY(ff_letters_measure(drawn->letters, title, size, error));
    if (size->lines == 1) return FF_OK;
    title->scale = 1;
    return ff_letters_measure(drawn->letters, title, size, error);
}

/* Draws a section's title and pictures from `*y` on and advances `*y`; without a canvas only
 * advances `*y`. */
static ff_status draw_section(const sheet *drawn, size_t section, unsigned width, uint64_t *y,
                              ff_canvas *canvas, ff_error *error) {
    const ff_contact *contact = drawn->contact;
    ff_paragraph title;
    ff_paragraph_size size;
    FF_TRY(fit_title(drawn, section, width, &title, &size, error));
    if (canvas)
        FF_TRY(
            ff_letters_draw(drawn->letters, &title, canvas, MARGIN, (unsigned)*y, pale_ink, error));
    *y += size.height + TITLE_SPACE;
    for (uint64_t i = 0; canvas && i < contact->section[section].count; i++)
        FF_TRY(draw_cell(drawn, section, canvas, i,
                         MARGIN + (unsigned)(i % contact->columns) * (drawn->cell_width + GAP),
                         (unsigned)(*y + i / contact->columns * (drawn->cell_height + GAP)),
                         error));
    *y += (uint64_t)drawn->section[section].rows * (drawn->cell_height + GAP) - GAP;
    return FF_OK;
}

static ff_status draw_sections(const sheet *drawn, unsigned width, uint64_t *height,
                               ff_canvas *canvas, ff_error *error) {
    *height = MARGIN;
    for (size_t s = 0; s < drawn->contact->sections; s++) {
        if (s) *height += SPLIT_SPACE;
        FF_TRY(draw_section(drawn, s, width, height, canvas, error));
    }
    *height += MARGIN;
    return FF_OK;
}

static ff_status draw(const sheet *drawn, ff_canvas *canvas, ff_error *error) {
    const unsigned columns = drawn->contact->columns;
    uint64_t width = 2 * MARGIN + (uint64_t)columns * (drawn->cell_width + GAP) - GAP;
    uint64_t height = (uint64_t)drawn->rows * (drawn->cell_height + GAP);
    if (width * height <= SHEET_PIXELS_LIMIT)
        FF_TRY(draw_sections(drawn, (unsigned)width, &height, NULL, error));
    if (width * height > SHEET_PIXELS_LIMIT)
        return ff_fail(error, FF_USAGE,
                       "%ux%u pictures of %ux%u pixels would make a sheet of %" PRIu64 " x %" PRIu64
                       " pixels, more than %" PRIu64 " million; choose fewer",
                       drawn->rows, columns, drawn->picture_height, drawn->picture_width, width,
                       height, (uint64_t)SHEET_PIXELS_LIMIT / 1000000);
    FF_TRY(ff_canvas_create(canvas, (unsigned)width, (unsigned)height, paper, error));
    return draw_sections(drawn, (unsigned)width, &height, canvas, error);
}

ff_status ff_contact_draw(const ff_contact *contact, ff_canvas *canvas, ff_contact_facts *facts,
                          ff_error *error) {
    sheet drawn = {.contact = contact};
    ff_status status;
    *canvas = (ff_canvas){0};
    FF_TRY_DONE(ff_letters_open(&drawn.letters, error));
    FF_TRY_DONE(write_texts(&drawn, error));
    FF_TRY_DONE(plan(&drawn, error));
    FF_TRY_DONE(draw(&drawn, canvas, error));
    if (facts)
        *facts = (ff_contact_facts){drawn.transliterated, ff_letters_has_library(drawn.letters)};
done:
    free_texts(&drawn);
    ff_letters_close(&drawn.letters);
    return status;
}
