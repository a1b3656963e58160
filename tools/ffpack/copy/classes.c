#include "tools/ffpack/copy/classes.h"

#include "format/cli/nearest.h"

#include <stdlib.h>
#include <string.h>

static ff_field *field_of(const ff_class_edit *edit) {
    return &edit->copy->field[edit->field];
}

/* The class of this name, or class_count. */
static uint32_t find(const ff_field *field, const char *name, size_t bytes) {
    uint32_t i = 0;
    while (i < field->class_count &&
           (strncmp(field->class_name[i], name, bytes) != 0 || field->class_name[i][bytes] != 0))
        i++;
    return i;
}

static bool has(const ff_field *field, const char *name, size_t bytes) {
    return find(field, name, bytes) < field->class_count;
}

static ff_status no_class(const ff_class_edit *edit, const char *option, const char *name,
                          size_t bytes, ff_error *error) {
    const ff_field *field = field_of(edit);
    ff_nearest nearest = {.wanted = name, .length = bytes};
    for (uint32_t i = 0; i < field->class_count; i++)
        ff_nearest_offer(&nearest, field->class_name[i]);
    return ff_fail(error, FF_USAGE, "--%s: %s has no class '%.*s' in its field %s%s%s%s", option,
                   edit->path, (int)bytes, name, field->name, nearest.name ? "; did you mean " : "",
                   nearest.name ? nearest.name : "", nearest.name ? "?" : "");
}

/* ---- names ---------------------------------------------------------------------------------- */

static ff_status set_name(ff_field *field, uint32_t number, const char *name, ff_error *error) {
    char *copy;
    FF_TRY(ff_copy_string(&copy, name, error));
    free(field->class_name[number]);
    field->class_name[number] = copy;
    return FF_OK;
}

/* The '=' after a class, or else the first one; NULL: there is none, or one side is empty. */
static const char *find_equals(const ff_field *field, const char *text) {
    const char *first = strchr(text, '='), *at = first;
    while (at && !has(field, text, (size_t)(at - text))) at = strchr(at + 1, '=');
    if (!at) at = first;
    return at && at > text && at[1] ? at : NULL;
}

ff_status ff_class_rename(const ff_class_edit *edit, const char *text, ff_error *error) {
    ff_field *field = field_of(edit);
    const char *equals = find_equals(field, text);
    if (!equals)
        return ff_fail(error, FF_USAGE, "--rename-class: '%s' is not OLD=NEW, like cat=tiger",
                       text);
    const size_t bytes = (size_t)(equals - text);
    const uint32_t number = find(field, text, bytes);
    if (number == field->class_count) return no_class(edit, "rename-class", text, bytes, error);
    if (has(field, equals + 1, strlen(equals + 1)))
        return ff_fail(error, FF_USAGE,
                       "--rename-class: %s has a class '%s' already; --merge-class %s makes one "
                       "class of both",
                       edit->path, equals + 1, text);
    return set_name(field, number, equals + 1, error);
}

ff_status ff_class_append(const ff_class_edit *edit, const char *name, ff_error *error) {
    if (has(field_of(edit), name, strlen(name)))
        return ff_fail(error, FF_USAGE, "--add-class: %s has a class '%s' already", edit->path,
                       name);
    return ff_metadata_add_class(edit->copy, edit->field, name, error);
}

/* ---- merging -------------------------------------------------------------------------------- */

/* Marks the classes of a list with ',' between; false if a part is not a class. Longer names are
 * tried first. */
static bool mark(const ff_field *field, const char *text, size_t bytes, bool *merged) {
    const uint32_t whole = find(field, text, bytes);
    bool found = whole < field->class_count;
    if (found) merged[whole] = true;
    for (size_t head = bytes; !found && head-- > 0;) {
        if (text[head] != ',') continue;
        const uint32_t number = find(field, text, head);
        found =
            number < field->class_count && mark(field, text + head + 1, bytes - head - 1, merged);
        if (found) merged[number] = true;
    }
    return found;
}

/* The first part of the list that is not a class. */
static ff_status refuse_list(const ff_class_edit *edit, const char *text, size_t bytes,
                             ff_error *error) {
    const char *at = text, *end = text + bytes;
    for (;;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const size_t part = (size_t)((comma ? comma : end) - at);
        if (!comma || !has(field_of(edit), at, part))
            return no_class(edit, "merge-class", at, part, error);
        at = comma + 1;
    }
}

/* Numbers after a merge: `kept` is the one class that the others become. */
static void number_again(const bool *merged, uint32_t count, uint32_t kept, uint32_t *number) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!merged[i] || i == kept) number[i] = next++;
    for (uint32_t i = 0; i < count; i++)
        if (merged[i]) number[i] = number[kept];
}

/* Applies the new numbers to the map of the earlier edits. */
static ff_status follow(const ff_class_edit *edit, const uint32_t *number, ff_error *error) {
    const uint32_t count = field_of(edit)->class_count;
    ff_class_map *map = edit->map;
    if (!map->to[edit->field]) {
        FF_TRY(ff_class_map_add(map, edit->field, count, error));
        for (uint32_t i = 0; i < count; i++) map->to[edit->field][i] = i;
    }
    for (uint32_t i = 0; i < map->count[edit->field]; i++)
        map->to[edit->field][i] = number[map->to[edit->field][i]];
    return FF_OK;
}

static void drop_names(ff_field *field, const bool *merged, uint32_t kept) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < field->class_count; i++) {
        if (merged[i] && i != kept)
            free(field->class_name[i]);
        else
            field->class_name[next++] = field->class_name[i];
    }
    field->class_count = next;
}

/* `merged` [class_count] become the class `name`. */
static ff_status merge_into(const ff_class_edit *edit, bool *merged, const char *name,
                            ff_error *error) {
    ff_field *field = field_of(edit);
    uint32_t kept = find(field, name, strlen(name)), *number;
    if (kept < field->class_count)
        merged[kept] = true;
    else
        for (kept = 0; !merged[kept];) kept++;
    FF_TRY(ff_alloc(&number, field->class_count, sizeof *number, "classes", error));
    number_again(merged, field->class_count, kept, number);
    ff_status status = follow(edit, number, error);
    free(number);
    FF_TRY(status);
    FF_TRY(set_name(field, kept, name, error));
    drop_names(field, merged, kept);
    return FF_OK;
}

/* Finds the '=' after a list of classes, and marks these classes; NULL if there is none. */
static const char *find_list(const ff_field *field, const char *text, bool *merged) {
    const char *at = strchr(text, '=');
    for (; at; at = strchr(at + 1, '=')) {
        memset(merged, 0, field->class_count);
        if (at[1] && mark(field, text, (size_t)(at - text), merged)) return at;
    }
    return NULL;
}

ff_status ff_class_merge(const ff_class_edit *edit, const char *text, ff_error *error) {
    const ff_field *field = field_of(edit);
    const char *first = strchr(text, '=');
    bool *merged;
    if (!first || first == text || !first[1])
        return ff_fail(error, FF_USAGE,
                       "--merge-class: '%s' is not OLD,OLD=NEW, like cat,lion=cats", text);
    FF_TRY(ff_alloc(&merged, field->class_count, sizeof *merged, "classes", error));
    const char *equals = find_list(field, text, merged);
    ff_status status = equals ? merge_into(edit, merged, equals + 1, error)
                              : refuse_list(edit, text, (size_t)(first - text), error);
    free(merged);
    return status;
}
