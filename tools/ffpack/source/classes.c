/* Class names and the labels they stand for. */
#include "tools/ffpack/source/disk.h"
#include "tools/ffpack/source/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Addresses of names are compared where the names are equal: their order is that of the lines. */
static int compare_classes(const void *a, const void *b) {
    char *const *first = *(char *const *const *)a, *const *second = *(char *const *const *)b;
    int order = strcmp(*first, *second);
    return order ? order : (first > second) - (first < second);
}

/* *sorted [class_count]: the places of the names, in the order of their bytes; to be freed. */
static ff_status sort_classes(const ff_field *field, char ****sorted, ff_error *error) {
    FF_TRY(ff_alloc(sorted, field->class_count, sizeof **sorted, "class names", error));
    for (uint32_t i = 0; i < field->class_count; i++) (*sorted)[i] = &field->class_name[i];
    qsort(*sorted, field->class_count, sizeof **sorted, compare_classes);
    return FF_OK;
}

static ff_status check_different(const ff_field *field, const char *path, ff_error *error) {
    char ***sorted;
    FF_TRY(sort_classes(field, &sorted, error));
    ff_status status = FF_OK;
    for (uint32_t i = 1; i < field->class_count && status == FF_OK; i++)
        if (!strcmp(*sorted[i], *sorted[i - 1]))
            status = ff_fail(error, FF_BAD_DATA,
                             "%s: line %td names class '%s', as line %td does already", path,
                             sorted[i] - field->class_name + 1, *sorted[i],
                             sorted[i - 1] - field->class_name + 1);
    free(sorted);
    return status;
}

ff_status ff_source_take_classes(ff_source *source, size_t field, const char *path, char *text,
                                 ff_error *error) {
    char *cursor = text, *line;
    size_t line_number = 0, empty_line = 0;
    const ff_field *labels = &source->labels.field[field];
    while ((line = ff_text_line(&cursor))) {
        line_number++;
        if (!*line) {
            if (!empty_line) empty_line = line_number;
            continue;
        }
        if (empty_line)
            return ff_fail(error, FF_BAD_DATA, "%s: line %zu is empty, wanted a class name", path,
                           empty_line);
        FF_TRY(ff_metadata_add_class(&source->labels, field, line, error));
    }
    if (!labels->class_count)
        return ff_fail(error, FF_BAD_DATA, "%s: has no line, wanted a class name a line", path);
    return check_different(labels, path, error);
}

ff_status ff_source_read_classes(ff_source *source, size_t field, const char *path,
                                 ff_error *error) {
    char *text;
    FF_TRY(ff_disk_text(path, &text, error));
    ff_status status = ff_source_take_classes(source, field, path, text, error);
    free(text);
    return status;
}

/* ---- class folders ------------------------------------------------------------------------- */

static ff_status differ(const ff_source *source, const char *where, size_t index, const char *here,
                        const char *first, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "%s: class %zu is %s%s, but %s has %s%s; the splits must have the same class "
                   "folders, or be packed one by one, or --classes FILE has to name them all",
                   where, index, here ? "folder " : "missing", here ? here : "",
                   source->split[0].root ? source->split[0].root : source->split[0].name,
                   first ? "folder " : "none", first ? first : "");
}

/* Of the first split on, the folders are the classes. */
static ff_status take_folders(ff_source *source, const char *where, const ff_names *folders,
                              int32_t *label, ff_error *error) {
    const ff_field *field = &source->labels.field[0];
    bool first = !field->class_count;
    for (size_t i = 0; i < folders->count || (!first && i < field->class_count); i++) {
        const char *here = i < folders->count ? ff_names_at(folders, i) : NULL;
        if (first) {
            FF_TRY(ff_metadata_add_class(&source->labels, 0, here, error));
        } else {
            const char *there = i < field->class_count ? field->class_name[i] : NULL;
            if (!here || !there || strcmp(here, there) != 0)
                return differ(source, where, i, here, there, error);
        }
        label[i] = (int32_t)i;
    }
    return FF_OK;
}

static int compare_to_class(const void *name, const void *class_name) {
    return strcmp(name, **(char **const *)class_name);
}

/* The lines of the file are the classes; it may name more than there are folders. */
static ff_status find_folders(ff_source *source, const char *where, const ff_names *folders,
                              int32_t *label, ff_error *error) {
    const ff_field *field = &source->labels.field[0];
    if (!field->class_count) FF_TRY(ff_source_read_classes(source, 0, source->classes, error));
    char ***sorted;
    FF_TRY(sort_classes(field, &sorted, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < folders->count && status == FF_OK; i++) {
        const char *name = ff_names_at(folders, i);
        char ***found = bsearch(name, sorted, field->class_count, sizeof *sorted, compare_to_class);
        if (found)
            label[i] = (int32_t)(*found - field->class_name);
        else
            status = ff_fail(error, FF_BAD_DATA, "%s: folder %s is no class that %s names", where,
                             name, source->classes);
    }
    free(sorted);
    return status;
}

ff_status ff_source_label_folders(ff_source *source, const char *where, const ff_names *folders,
                                  int32_t **label, ff_error *error) {
    *label = NULL;
    if (!folders->count) return ff_fail(error, FF_BAD_DATA, "%s: holds no class folders", where);
    FF_TRY(ff_alloc(label, folders->count, sizeof **label, "classes", error));
    ff_status status = source->classes ? find_folders(source, where, folders, *label, error)
                                       : take_folders(source, where, folders, *label, error);
    if (status != FF_OK) {
        free(*label);
        *label = NULL;
    }
    return status;
}
