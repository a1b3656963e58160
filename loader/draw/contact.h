/* Room loader/draw, floor 5: pictures for people: sheets of samples with captions, as PNG.
 *
 * picture.h turns a stored tensor back into pixels. Rectangles, lines and text are drawn on a
 * canvas (canvas.h); letters come from the system's fonts if Pango is found (pango.h), else from a
 * small font (font.h, letters.h). This header lays pictures out in rows and sections, and png.c
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
    uint64_t count;    /* number of pictures */
} ff_contact_section;

typedef struct ff_contact {
    const ff_contact_section *section; /* [sections] */
    size_t sections;
    unsigned columns;
    bool parts;
    uint32_t height, width; /* size of the largest picture */
    /* Appends the caption of picture `i` of a section. how: FF_NAME_ values
     * (format/disk/class_name.h), for names whose letters cannot be drawn or that would be cut. In
     * a caption of several parts
     * (`parts`) the names are shortened, not the caption's end. */
    ff_status (*caption)(void *context, size_t section, uint64_t i, unsigned how, ff_buffer *text,
                         ff_error *error);
    /* Picture `i` of a section, valid until the next call. */
    ff_status (*picture)(void *context, size_t section, uint64_t i, ff_contact_picture *picture,
                         ff_error *error);
    void *context;
} ff_contact;

typedef struct ff_contact_facts {
    bool transliterated; /* some letters had to be transliterated */
    bool has_library;    /* Pango drew them */
} ff_contact_facts;

/* Makes the canvas, which the caller frees, after a failure too, and draws on it. Small pictures
 * are enlarged and large ones reduced, by whole factors. `facts` may be NULL. FF_USAGE if the sheet
 * would be too large. */
FF_MUST_USE ff_status ff_contact_draw(const ff_contact *contact, ff_canvas *canvas,
                                      ff_contact_facts *facts, ff_error *error);

#endif
