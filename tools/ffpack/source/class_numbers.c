#include "tools/ffpack/source/class_numbers.h"

#include "format/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ff_class_number entry;

static int compare(const void *a, const void *b) {
    const entry *first = a, *second = b;
    if (first->value != second->value) return first->value < second->value ? -1 : 1;
    return (first->label > second->label) - (first->label < second->label);
}

/* Whether a class's name is the number as one writes it, without a sign or zeros in front. */
static bool is_plain(const ff_class_numbers *numbers, const entry *at) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, at->value);
    return !strcmp(text, numbers->field->class_name[at->label]);
}

/* If classes have the same value, such as "1" and "01", only the plain name counts. */
static void drop_doubles(ff_class_numbers *numbers) {
    uint32_t kept = 0;
    for (uint32_t i = 0, end; i < numbers->name_count; i = end) {
        for (end = i + 1; end < numbers->name_count; end++)
            if (numbers->name[end].value != numbers->name[i].value) break;
        for (uint32_t k = i; k < end; k++)
            if (end == i + 1 || is_plain(numbers, &numbers->name[k]))
                numbers->name[kept++] = numbers->name[k];
    }
    numbers->name_count = kept;
}

ff_status ff_class_numbers_begin(ff_class_numbers *numbers, const ff_field *field, const char *by,
                                 ff_label_kind kind, ff_error *error) {
    *numbers = (ff_class_numbers){.field = field, .by = by, .kind = kind, .all = true};
    FF_TRY(ff_alloc(&numbers->name, (size_t)field->class_count + 1, sizeof *numbers->name,
                    "class names", error));
    for (uint32_t i = 0; i < field->class_count; i++) {
        const char *name = field->class_name[i];
        int64_t value;
        if (ff_text_whole(name, strlen(name), &value) > 0)
            numbers->name[numbers->name_count++] = (entry){value, i};
        else
            numbers->all = false;
    }
    qsort(numbers->name, numbers->name_count, sizeof *numbers->name, compare);
    drop_doubles(numbers);
    return FF_OK;
}

int32_t ff_class_numbers_named(const ff_class_numbers *numbers, int64_t value) {
    uint32_t low = 0, high = numbers->name_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (numbers->name[middle].value < value)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < numbers->name_count && numbers->name[low].value == value;
    return found ? (int32_t)numbers->name[low].label : -1;
}

static void first(uint64_t *at, int64_t *number, uint64_t now, int64_t value) {
    if (*at) return;
    *at = now;
    *number = value;
}

void ff_class_numbers_see(ff_class_numbers *numbers, int64_t value, uint64_t at) {
    if (value == -1) return;
    const int32_t label = ff_class_numbers_named(numbers, value);
    if (label >= 0 && !numbers->named_at) numbers->named_at = at;
    if (label < 0) first(&numbers->nameless_at, &numbers->nameless, at, value);
    if (label >= 0 && label != value) first(&numbers->other_at, &numbers->other, at, value);
    if (value < 0 || value >= numbers->field->class_count)
        first(&numbers->beyond_at, &numbers->beyond, at, value);
}

/* ---- the rule ------------------------------------------------------------------------------- */

static ff_status no_name(const ff_class_numbers *numbers, const char *unit, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "%s %" PRIu64 " has %" PRId64 ", and no class of %s is called so", unit,
                   numbers->nameless_at, numbers->nameless, numbers->by);
}

static ff_status no_place(const ff_class_numbers *numbers, const char *unit, ff_error *error) {
    return ff_fail(
        error, FF_BAD_DATA, "%s %" PRIu64 " has the class %" PRId64 ", wanted -1 to %u as in %s",
        unit, numbers->beyond_at, numbers->beyond, numbers->field->class_count - 1, numbers->by);
}

static ff_status which(const ff_class_numbers *numbers, const char *unit, ff_error *error) {
    return ff_fail(
        error, FF_USAGE,
        "%s %" PRIu64 " has %" PRId64
        ", and no class of %s is called so, but a number may also count the classes: %" PRId64
        " would be class '%s'; wanted --label-kind numbers if these numbers count the "
        "classes from 0 on, or the names of classes",
        unit, numbers->nameless_at, numbers->nameless, numbers->by, numbers->nameless,
        numbers->field->class_name[numbers->nameless]);
}

/* Refuses a number like 1 if it names a class and other classes have names like cat and dog. */
static ff_status two_classes(const ff_class_numbers *numbers, const char *unit, ff_error *error) {
    return ff_fail(
        error, FF_USAGE,
        "%s %" PRIu64 " has %" PRId64
        ", and a class of %s is called so, but a number may also count the classes: %" PRId64
        " would be class '%s'; wanted --label-kind names or --label-kind numbers",
        unit, numbers->other_at, numbers->other, numbers->by, numbers->other,
        numbers->field->class_name[numbers->other]);
}

ff_status ff_class_numbers_decide(ff_class_numbers *numbers, const char *unit, ff_error *error) {
    const bool names = !numbers->nameless_at, places = !numbers->beyond_at;
    if (numbers->kind == FF_LABEL_NUMBERS) return places ? FF_OK : no_place(numbers, unit, error);
    numbers->names = names;
    if (names && places && !numbers->all && numbers->other_at && numbers->kind != FF_LABEL_NAMES)
        return two_classes(numbers, unit, error);
    if (names) return FF_OK;
    if (numbers->kind == FF_LABEL_NAMES) return no_name(numbers, unit, error);
    if (!numbers->all && !numbers->named_at && !numbers->listed)
        return places ? FF_OK : no_place(numbers, unit, error);
    return places ? which(numbers, unit, error) : no_name(numbers, unit, error);
}

int32_t ff_class_numbers_label(const ff_class_numbers *numbers, int64_t value) {
    if (value == -1) return -1;
    return numbers->names ? ff_class_numbers_named(numbers, value) : (int32_t)value;
}

uint32_t ff_class_numbers_limit(const ff_field *field) {
    int64_t value;
    for (uint32_t i = 0; i < field->class_count; i++)
        if (ff_text_whole(field->class_name[i], strlen(field->class_name[i]), &value) > 0) return 0;
    return field->class_count;
}

ff_status ff_class_numbers_say(const ff_class_numbers *numbers, char **text, ff_error *error) {
    if (!numbers->names)
        return ff_format(text, error, "labels are numbers of classes, from 0 (0 is %s)",
                         numbers->field->class_name[0]);
    const entry *shown = NULL;
    for (uint32_t i = 0; i < numbers->name_count && !shown; i++)
        if (numbers->name[i].value != numbers->name[i].label) shown = &numbers->name[i];
    if (!shown) return ff_format(text, error, "labels are names of classes");
    return ff_format(text, error,
                     "labels are names of classes (%" PRId64 " is the class %s, number %u)",
                     shown->value, numbers->field->class_name[shown->label], shown->label);
}

void ff_class_numbers_free(ff_class_numbers *numbers) {
    free(numbers->name);
    *numbers = (ff_class_numbers){0};
}
