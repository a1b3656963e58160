/* Describes each label field in the summary: its kind, its classes and an example. */
#include "format/cli/say.h"
#include "tools/ffpack/source/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_SHOWN = 4 };

/* A field's labels. */
typedef struct seen {
    const ff_field *field;
    size_t offset; /* among an item's labels */
    int64_t least, most;
    uint64_t labeled, unlabeled;
    ff_buffer example;
} seen;

/* A class by its name, or its number. */
static ff_status add_class(ff_buffer *text, const ff_field *field, int64_t label, ff_error *error) {
    if (label < field->class_count)
        return ff_buffer_printf(text, error, "%.60s", field->class_name[label]);
    return ff_buffer_printf(text, error, "%" PRId64, label);
}

/* Number `index` of a vector; u8 is a multi-hot label's. */
static double number_of(const ff_field *field, const char *value, uint32_t index) {
    float real;
    int64_t whole;
    if (field->dtype == FF_U8) return (unsigned char)value[index];
    if (field->dtype == FF_F32) {
        memcpy(&real, value + index * sizeof real, sizeof real);
        return (double)real;
    }
    memcpy(&whole, value + index * sizeof whole, sizeof whole);
    return (double)whole;
}

static ff_status add_values(ff_buffer *text, const ff_field *field, const char *value,
                            ff_error *error) {
    if (field->kind == FF_FIELD_CLASS)
        return add_class(text, field, ff_field_class(field, value), error);
    const bool hot = field->kind == FF_FIELD_MULTI_HOT;
    uint32_t shown = 0;
    for (uint32_t i = 0; i < field->width; i++) {
        double number = number_of(field, value, i);
        if (hot && number == 0) continue;
        if (shown) FF_TRY(ff_buffer_printf(text, error, ", "));
        if (shown++ == VALUES_SHOWN) return ff_buffer_printf(text, error, "...");
        FF_TRY(hot ? add_class(text, field, i, error)
                   : ff_buffer_printf(text, error, "%g", number));
    }
    return shown ? FF_OK : ff_buffer_printf(text, error, "none of them");
}

static ff_status see(seen *of, const ff_item *item, ff_error *error) {
    const ff_field *field = of->field;
    const char *value = (const char *)item->labels + of->offset;
    if (field->kind == FF_FIELD_CLASS) {
        int64_t label = ff_field_class(field, value);
        if (label < 0) {
            of->unlabeled++;
            return FF_OK;
        }
        if (!of->labeled || label < of->least) of->least = label;
        if (!of->labeled || label > of->most) of->most = label;
    }
    if (of->labeled++) return FF_OK;
    FF_TRY(ff_buffer_printf(&of->example, error, "; %.*s is ",
                            (int)(item->key_bytes < 80 ? item->key_bytes : 80),
                            (const char *)item->key));
    return add_values(&of->example, field, value, error);
}

/* Notes an item's labels of all fields; `context`: the notes of each field, then one without a
 * field. */
static ff_status see_item(void *context, const ff_item *item, ff_error *error) {
    for (seen *of = context; of->field; of++) FF_TRY(see(of, item, error));
    return FF_OK;
}

/* "label: class, 3 names; a.png is cat; 2 items have none (-1)" */
static ff_status say(const seen *of, char **text, ff_error *error) {
    const ff_field *field = of->field;
    char classes[64] = "no classes", none[96] = "";
    if (field->kind == FF_FIELD_NONE) return ff_format(text, error, "no labels");
    if (field->kind == FF_FIELD_VECTOR)
        snprintf(classes, sizeof classes, "%s",
                 ff_say_count(field->width, "number", "numbers").text);
    else if (field->class_count)
        snprintf(classes, sizeof classes, "%s",
                 ff_say_count(field->class_count, "name", "names").text);
    else if (field->kind != FF_FIELD_CLASS)
        snprintf(classes, sizeof classes, "%s",
                 ff_say_count(field->width, "class", "classes").text);
    else if (of->labeled)
        snprintf(classes, sizeof classes, "numbers %" PRId64 " to %" PRId64, of->least, of->most);
    if (of->unlabeled)
        snprintf(none, sizeof none, "; %s no label (-1)",
                 ff_say_count(of->unlabeled, "item has", "items have").text);
    ff_status status =
        ff_format(text, error, "%s: %s, %s%s%s", field->name, ff_field_kind_name(field->kind),
                  classes, of->example.length ? of->example.bytes : "", none);
    for (char *at = status == FF_OK ? *text : NULL; at && *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = '?';
    return status;
}

ff_status ff_source_note_labels(ff_source *source, ff_error *error) {
    seen *fields;
    size_t offset = 0;
    FF_TRY(ff_alloc(&fields, source->labels.field_count + 1, sizeof *fields, "labels", error));
    for (size_t i = 0; i < source->labels.field_count; i++) {
        fields[i] = (seen){.field = &source->labels.field[i], .offset = offset};
        offset += ff_field_bytes(fields[i].field);
    }
    ff_status status = FF_OK;
    for (size_t i = 0; i < source->split_count && offset && status == FF_OK; i++)
        status = ff_listing_visit(source->split[i].listing, see_item, fields, error);
    for (size_t i = 0; i < source->labels.field_count && status == FF_OK; i++) {
        char *text;
        status = say(&fields[i], &text, error);
        if (status == FF_OK) status = ff_source_note(source, text, error);
    }
    for (size_t i = 0; i < source->labels.field_count; i++) ff_buffer_free(&fields[i].example);
    free(fields);
    return status;
}
