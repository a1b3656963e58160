#include "tools/ffinspect/grid.h"

#include "format/cli/say.h"
#include "loader/draw/contact.h"
#include "tools/ffinspect/facts/label.h"
#include "tools/ffinspect/sheet.h"

#include <inttypes.h>
#include <stdlib.h>

static ff_status caption(void *context, size_t section, uint64_t i, unsigned how, ff_buffer *text,
                         ff_error *error) {
    const ff_sheet_section *split = &((const ff_sheet *)context)->split[section];
    if (!split->captioned) return ff_buffer_printf(text, error, "%" PRIu64, split->number[i]);
    return ff_inspect_caption(text, split->reader, split->dataset, split->number[i], split->field,
                              how, error);
}

static ff_status picture(void *context, size_t section, uint64_t i, ff_contact_picture *picture,
                         ff_error *error) {
    ff_sheet_section *split = &((ff_sheet *)context)->split[section];
    ff_view view;
    FF_TRY(ff_sheet_read(split, i, &view, error));
    ff_picture_convert(split->metadata, &split->scale, split->tensor, view.height, view.width,
                       split->rgb);
    *picture = (ff_contact_picture){split->rgb, view.height, view.width};
    return FF_OK;
}

static ff_status draw(ff_sheet *drawn, ff_canvas *canvas, ff_contact_facts *facts,
                      ff_error *error) {
    ff_contact_section *sections;
    FF_TRY(ff_alloc(&sections, drawn->splits, sizeof *sections, "a contact sheet", error));
    for (size_t i = 0; i < drawn->splits; i++)
        sections[i] = (ff_contact_section){drawn->split[i].title, drawn->split[i].count};
    const ff_contact contact = {.section = sections,
                                .sections = drawn->splits,
                                .columns = drawn->columns,
                                .height = drawn->largest_height,
                                .width = drawn->largest_width,
                                .caption = caption,
                                .picture = picture,
                                .context = drawn};
    ff_status status = ff_contact_draw(&contact, canvas, facts, error);
    free(sections);
    return status == FF_USAGE ? ff_fail_within(error, status, "--grid") : status;
}

static ff_status say(const ff_sheet *drawn, const ff_canvas *canvas, const ff_contact_facts *facts,
                     const char *path, char **sentence, ff_error *error) {
    ff_buffer text = {0};
    ff_status status = ff_buffer_printf(&text, error, "%s: %s", path,
                                        ff_say_count(drawn->count, "sample", "samples").text);
    if (status == FF_OK && drawn->splits > 1)
        status = ff_buffer_printf(&text, error, " of %zu splits", drawn->splits);
    if (status == FF_OK)
        status = ff_buffer_printf(&text, error, " in %s of %u, %u x %u pixels; %s",
                                  ff_say_count(drawn->rows, "row", "rows").text, drawn->columns,
                                  canvas->width, canvas->height, drawn->split->scale.sentence);
    if (status == FF_OK && facts->transliterated)
        status = ff_buffer_printf(
            &text, error, "; names marked ~ are transliterated: %s",
            facts->has_library ? "no font here has their letters"
                               : "to draw any script takes libpangocairo-1.0.so.0 and a font");
    *sentence = text.bytes; /* the caller takes it over */
    return status;
}

ff_status ff_inspect_grid(const ff_set *list, const ff_inspect_options *options, char **sentence,
                          ff_error *error) {
    ff_sheet drawn;
    ff_canvas canvas = {0};
    ff_contact_facts facts = {0};
    ff_status status;
    *sentence = NULL;
    FF_TRY_DONE(ff_sheet_open(&drawn, list, options, error));
    FF_TRY_DONE(draw(&drawn, &canvas, &facts, error));
    FF_TRY_DONE(ff_canvas_write_png(&canvas, options->png, error));
    FF_TRY_DONE(say(&drawn, &canvas, &facts, options->png, sentence, error));
    status = FF_OK;
done:
    ff_canvas_free(&canvas);
    ff_sheet_free(&drawn);
    return status;
}
