/* Binds expressions of format/select/where.h to a set's names, and evaluates them for its samples.
 */
#include "format/cli/nearest.h"
#include "format/select/where.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const own_names[] = {"key", "split", "height", "width"};

/* ---- binding -------------------------------------------------------------------------------- */

static ff_status no_name(const ff_where *where, const ff_where_step *step,
                         const ff_metadata *metadata, const char *set, ff_error *error) {
    const char *name = where->expression + step->at;
    ff_nearest nearest = {.wanted = name, .length = step->name_bytes};
    for (size_t i = 0; i < metadata->field_count; i++)
        ff_nearest_offer(&nearest, metadata->field[i].name);
    for (int i = 0; i < FF_WHERE_FIELD && !step->quoted_name; i++)
        ff_nearest_offer(&nearest, own_names[i]);
    if (nearest.name)
        return ff_fail(error, FF_USAGE, "at %zu: %s has no label field '%.*s'; did you mean %s?",
                       step->at + 1, set, (int)step->name_bytes, name, nearest.name);
    ff_buffer fields = {0};
    ff_status status = FF_OK;
    for (size_t i = 0; i < metadata->field_count && status == FF_OK; i++)
        status = ff_buffer_printf(&fields, error, "%s, ", metadata->field[i].name);
    if (status == FF_OK)
        status = ff_fail(error, FF_USAGE,
                         "at %zu: %s has no label field '%.*s'; wanted one of %skey, split, height "
                         "and width",
                         step->at + 1, set, (int)step->name_bytes, name,
                         fields.length ? fields.bytes : "");
    ff_buffer_free(&fields);
    return status;
}

static bool is_name(const ff_where *where, const ff_where_step *step, const char *name) {
    return strlen(name) == step->name_bytes &&
           !memcmp(where->expression + step->at, name, step->name_bytes);
}

/* `class`: the only field of classes; *field is not changed if there are several. */
static bool find_only_class(const ff_metadata *metadata, size_t *field) {
    size_t found = 0, count = 0;
    for (size_t i = 0; i < metadata->field_count; i++)
        if (metadata->field[i].kind == FF_FIELD_CLASS) found = i, count++;
    if (count == 1) *field = found;
    return count == 1;
}

static ff_status find_name(const ff_where *where, ff_where_step *step, const ff_metadata *metadata,
                           const char *set, ff_error *error) {
    for (int i = 0; i < FF_WHERE_FIELD && !step->quoted_name; i++) {
        if (!is_name(where, step, own_names[i])) continue;
        step->name = (ff_where_name)i;
        return FF_OK;
    }
    step->name = FF_WHERE_FIELD;
    for (step->field = 0; step->field < metadata->field_count; step->field++)
        if (is_name(where, step, metadata->field[step->field].name)) return FF_OK;
    if (!step->quoted_name && is_name(where, step, "class") &&
        find_only_class(metadata, &step->field))
        return FF_OK;
    return no_name(where, step, metadata, set, error);
}

static uint32_t find_class(const ff_field *field, const char *name, size_t bytes) {
    uint32_t i = 0;
    while (i < field->class_count && (strlen(field->class_name[i]) != bytes ||
                                      memcmp(field->class_name[i], name, bytes) != 0))
        i++;
    return i;
}

/* Turns a class's name into its number. A number that is also another class's name could mean
 * either class. */
static ff_status bind_class(ff_where *where, const ff_field *field, ff_where_value *value,
                            const char *set, ff_error *error) {
    const char *name = where->text + value->text;
    char digits[32];
    if (!value->quoted) {
        const int length = snprintf(digits, sizeof digits, "%.0f", value->number);
        const uint32_t found = length < (int)sizeof digits && value->number == trunc(value->number)
                                   ? find_class(field, digits, (size_t)length)
                                   : field->class_count;
        if (found == field->class_count || (double)found == value->number) return FF_OK;
        return ff_fail(error, FF_USAGE,
                       "at %zu: %s is the name of class %u of %s, not its number; wanted names in "
                       "quotes, '%s'",
                       value->at + 1, digits, found, set, digits);
    }
    const uint32_t number = find_class(field, name, value->bytes);
    value->number = number;
    if (number < field->class_count) return FF_OK;
    ff_nearest nearest = {.wanted = name, .length = value->bytes};
    for (uint32_t i = 0; i < field->class_count; i++)
        ff_nearest_offer(&nearest, field->class_name[i]);
    return ff_fail(error, FF_USAGE, "at %zu: %s has no class '%.*s' in its field %s%s%s%s",
                   value->at + 1, set, (int)value->bytes, name, field->name,
                   nearest.name ? "; did you mean '" : "", nearest.name ? nearest.name : "",
                   nearest.name ? "'?" : "");
}

static ff_status bind_field(ff_where *where, const ff_where_step *step, const ff_field *field,
                            const char *set, ff_error *error) {
    const bool named = field->kind == FF_FIELD_CLASS && field->class_count;
    const bool ordered = step->is >= FF_WHERE_BELOW && step->is <= FF_WHERE_AT_LEAST;
    if (field->kind != FF_FIELD_CLASS && (field->kind != FF_FIELD_VECTOR || field->width != 1))
        return ff_fail(
            error, FF_USAGE,
            "at %zu: label field %s of %s is %s; wanted one of a class or a single number",
            step->at + 1, field->name, set, ff_field_kind_name(field->kind));
    for (size_t i = 0; i < step->value_count; i++) {
        ff_where_value *value = &where->value[step->value + i];
        if (value->quoted && !named)
            return ff_fail(error, FF_USAGE,
                           "at %zu: the values of %s in %s are numbers; wanted one", value->at + 1,
                           field->name, set);
        if (value->quoted && ordered)
            return ff_fail(error, FF_USAGE,
                           "at %zu: names of classes have no order; wanted =, !=, in or like, or a "
                           "class's number",
                           value->at + 1);
        if (named && step->is != FF_WHERE_LIKE) FF_TRY(bind_class(where, field, value, set, error));
    }
    return FF_OK;
}

ff_status ff_where_bind(ff_where *where, const ff_metadata *metadata, const char *set,
                        ff_error *error) {
    where->metadata = metadata;
    for (size_t i = 0; i < where->step_count; i++) {
        ff_where_step *step = &where->step[i];
        if (step->is >= FF_WHERE_NOT) continue;
        FF_TRY(find_name(where, step, metadata, set, error));
        if (step->name == FF_WHERE_FIELD)
            FF_TRY(bind_field(where, step, &metadata->field[step->field], set, error));
        const bool numbers = step->name == FF_WHERE_HEIGHT || step->name == FF_WHERE_WIDTH;
        for (size_t k = 0; step->name != FF_WHERE_FIELD && k < step->value_count; k++) {
            const ff_where_value *value = &where->value[step->value + k];
            if (value->quoted == numbers)
                return ff_fail(error, FF_USAGE, "at %zu: %s is %s; wanted %s", value->at + 1,
                               own_names[step->name], numbers ? "a number" : "text",
                               numbers ? "one without quotes" : "it in quotes");
        }
    }
    return FF_OK;
}

bool ff_where_needs(const ff_where *where, size_t field) {
    bool needs = false;
    for (size_t i = 0; i < where->step_count; i++)
        needs |= where->step[i].is < FF_WHERE_NOT && where->step[i].name == FF_WHERE_FIELD &&
                 where->step[i].field == field;
    return needs;
}

/* ---- samples -------------------------------------------------------------------------------- */

static size_t character(const char *text, size_t bytes) {
    size_t length = 1;
    while (length < bytes && (text[length] & 0xc0) == 0x80) length++;
    return length;
}

/* After a mismatch the last * takes one more character: at most pattern x text steps. */
static bool is_like(const char *text, size_t bytes, const char *pattern, size_t pattern_bytes) {
    size_t t = 0, p = 0, star = SIZE_MAX, star_text = 0;
    while (t < bytes) {
        if (p < pattern_bytes && pattern[p] == '*') {
            star = p++;
            star_text = t;
        } else if (p < pattern_bytes && pattern[p] == '?') {
            t += character(text + t, bytes - t);
            p++;
        } else if (p < pattern_bytes && pattern[p] == text[t]) {
            t++;
            p++;
        } else if (star != SIZE_MAX) {
            star_text += character(text + star_text, bytes - star_text);
            t = star_text;
            p = star + 1;
        } else {
            return false;
        }
    }
    while (p < pattern_bytes && pattern[p] == '*') p++;
    return p == pattern_bytes;
}

static bool fits(ff_where_operator is, bool below, bool equal, bool above) {
    switch (is) {
    case FF_WHERE_EQUAL:
    case FF_WHERE_IN: return equal;
    case FF_WHERE_UNEQUAL: return !equal;
    case FF_WHERE_BELOW: return below;
    case FF_WHERE_AT_MOST: return below || equal;
    case FF_WHERE_ABOVE: return above;
    default: return above || equal;
    }
}

static bool text_holds(const ff_where *where, const ff_where_step *step, const char *text,
                       size_t bytes) {
    bool holds = false;
    for (size_t i = 0; i < step->value_count; i++) {
        const ff_where_value *value = &where->value[step->value + i];
        const char *other = where->text + value->text;
        const size_t shared = bytes < value->bytes ? bytes : value->bytes;
        int order = shared ? memcmp(text, other, shared) : 0;
        if (!order) order = (bytes > value->bytes) - (bytes < value->bytes);
        holds |= step->is == FF_WHERE_LIKE ? is_like(text, bytes, other, value->bytes)
                                           : fits(step->is, order<0, order == 0, order> 0);
    }
    return holds;
}

static bool number_holds(const ff_where *where, const ff_where_step *step, double number) {
    bool holds = false;
    for (size_t i = 0; i < step->value_count; i++) {
        const double other = where->value[step->value + i].number;
        holds |= fits(step->is, number<other, number == other, number> other);
    }
    return holds;
}

static bool comparison_holds(const ff_where *where, const ff_where_step *step,
                             const ff_where_sample *sample) {
    switch (step->name) {
    case FF_WHERE_KEY: return text_holds(where, step, sample->key, sample->key_bytes);
    case FF_WHERE_SPLIT: return text_holds(where, step, sample->split, strlen(sample->split));
    case FF_WHERE_HEIGHT: return number_holds(where, step, sample->height);
    case FF_WHERE_WIDTH: return number_holds(where, step, sample->width);
    case FF_WHERE_FIELD: break;
    }
    const ff_field *field = &where->metadata->field[step->field];
    const double number = sample->field[step->field];
    if (step->is != FF_WHERE_LIKE) return number_holds(where, step, number);
    if (!(number >= 0 && number < field->class_count)) return false;
    const char *name = field->class_name[(uint32_t)number];
    return text_holds(where, step, name, strlen(name));
}

bool ff_where_holds(const ff_where *where, const ff_where_sample *sample) {
    bool result[FF_WHERE_STEPS + 1] = {0};
    size_t count = 0;
    for (size_t i = 0; i < where->step_count; i++) {
        const ff_where_step *step = &where->step[i];
        if (step->is == FF_WHERE_NOT) {
            result[count - 1] = !result[count - 1];
        } else if (step->is == FF_WHERE_AND || step->is == FF_WHERE_OR) {
            count--;
            result[count - 1] = step->is == FF_WHERE_AND ? result[count - 1] && result[count]
                                                         : result[count - 1] || result[count];
        } else {
            result[count++] = comparison_holds(where, step, sample);
        }
    }
    return result[0];
}
