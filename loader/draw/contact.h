/* Room loader/draw, floor 2: pictures for people: sheets of samples with captions, as PNG.
 *
 * picture.h turns a stored tensor back into pixels. A canvas is filled with rectangles, lines and
 * text (canvas.h); letters come from the system's fonts where Pango is found (pango.h), else from
 * a small font (font.h, letters.h). This header lays pictures out in rows and sections, and png.c
 * writes the file. ffinspect, the trainer's reports and the debugging commands draw with it.
 *
 * May include format.
 *
 * Contact sheets: pictures in rows with captions under them, in sections with titles. */
#ifndef FF_LOADER_DRAW_CONTACT_H
#define FF_LOADER_DRAW_CONTACT_H

#include "loader/draw/letters.h"

/* rgb: [height, width, 3] u8. */
typedef struct ff_contact_picture {
    const uint8_t *rgb;
    uint32_t height, width;
} ff_contact_picture;

typedef struct ff_contact_section {
    const char *title; /* UTF-8 */
    uint64_t count;    /* pictures */
} ff_contact_section;

typedef struct ff_contact {
    const ff_contact_section *section; /* [sections] */
    size_t sections;
    unsigned columns;
    bool parts;
    uint32_t height, width; /* of the largest picture */
    /* Appends the caption of picture `i` of a section; how: of FF_NAME_ (format/class_name.h), for
     * names that have no letters, or that would be cut. A caption of several parts, `parts`, is cut
     * in its names and not at its end. */
    ff_status (*caption)(void *context, size_t section, uint64_t i, unsigned how, ff_buffer *text,
                         ff_error *error);
    /* Picture `i` of a section, valid until the next call. */
    ff_status (*picture)(void *context, size_t section, uint64_t i, ff_contact_picture *picture,
                         ff_error *error);
    void *context;
} ff_contact;

typedef struct ff_contact_facts {
    bool transliterated; /* some letters had to be */
    bool has_library;    /* Pango drew them */
} ff_contact_facts;

/* Makes the canvas, which the caller frees, after a failure too, and draws on it. Small pictures
 * are enlarged and large ones reduced, by whole factors. `facts` may be NULL. FF_USAGE where the
 * sheet would be too large. */
FF_MUST_USE ff_status ff_contact_draw(const ff_contact *contact, ff_canvas *canvas,
                                      ff_contact_facts *facts, ff_error *error);

#endif
