/* Class names and their labels. */
#include "format/base/path.h"
#include "format/base/text.h"
#include "format/disk/set.h"
#include "tools/ffpack/source/source.h"

#include "format/disk/layout.h"
#include "format/reader/reader.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Equal names are ordered by address, which is the order of the lines. */
static int compare_classes(const void *a, const void *b) {
    char *const *first = *(char *const *const *)a, *const *second = *(char *const *const *)b;
    int order = strcmp(*first, *second);
    return order ? order : (first > second) - (first < second);
}

/* *sorted [class_count]: pointers to the names, in the order of their bytes; freed by the
 * caller. */
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

/* Whether a name is this number and a word. */
static bool is_numbered(const char *name, size_t number) {
    const size_t digits = strcspn(name, " \t");
    int64_t value;
    return name[digits] && ff_text_whole(name, digits, &value) > 0 && value == (int64_t)number;
}

/* "0 cat" is a name, but its 0 may not be meant as a part of the name: the summary reports it. */
static ff_status note_numbered(ff_source *source, const ff_field *labels, const char *path,
                               ff_error *error) {
    char *text;
    for (size_t first = 0; first < 2; first++) {
        uint32_t i = 0;
        while (i < labels->class_count && is_numbered(labels->class_name[i], first + i)) i++;
        if (i < labels->class_count) continue;
        FF_TRY(ff_format(&text, error,
                         "%s: every class is called by its number and a word ('%.60s'); wanted "
                         "names alone if the numbers are not part of the names",
                         path, labels->class_name[0]));
        return ff_source_note(source, text, error);
    }
    return FF_OK;
}

ff_status ff_source_take_classes(ff_source *source, size_t field, const char *path, char *text,
                                 ff_error *error) {
    char *cursor = text, *line;
    size_t line_number = 0, empty_line = 0;
    const ff_field *labels = &source->labels.field[field];
    if (!strncmp(cursor, "\xef\xbb\xbf", 3)) cursor += 3;
    while ((line = ff_text_line(&cursor))) {
        size_t bytes = strlen(line);
        line = (char *)ff_text_trim(line, &bytes);
        line[bytes] = 0;
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
    FF_TRY(check_different(labels, path, error));
    return note_numbered(source, labels, path, error);
}

/* Takes the classes of a packed set's field: the one of the same name, or the only one with
 * classes. */
static ff_status take_field(ff_source *source, size_t field, const ff_metadata *set,
                            const char *path, ff_error *error) {
    const ff_field *found = NULL;
    size_t count = 0;
    for (size_t i = 0; i < set->field_count; i++) {
        const ff_field *at = &set->field[i];
        if (!at->class_count) continue;
        count++;
        if (!found || !strcmp(at->name, source->labels.field[field].name)) found = at;
    }
    if (!found || (count > 1 && strcmp(found->name, source->labels.field[field].name) != 0))
        return ff_fail(error, FF_USAGE, "--classes-from: %s has %s label field with class names",
                       path, found ? "more than one" : "no");
    for (uint32_t i = 0; i < found->class_count; i++)
        FF_TRY(ff_metadata_add_class(&source->labels, field, found->class_name[i], error));
    return FF_OK;
}

/* *set = whether `path` is a packed split, or a set with a train split. */
static ff_status classes_of_set(ff_source *source, size_t field, const char *path, bool *set,
                                ff_error *error) {
    char *folder;
    ff_dataset *dataset = NULL;
    FF_TRY(ff_set_choose(&folder, path, FF_SPLIT_TRAIN, FF_SPLIT_TRAIN, error));
    *set = folder != NULL;
    if (!folder) return FF_OK;
    ff_status status = ff_dataset_open(&dataset, folder, FF_VERIFY_FIRST, error);
    if (status == FF_OK)
        status = take_field(source, field, ff_dataset_metadata(dataset), folder, error);
    ff_dataset_close(&dataset);
    free(folder);
    return status;
}

static bool is_class_folder(const char *name, unsigned char type) {
    return *name != '.' && strcmp(name, "__MACOSX") != 0 && type != DT_REG;
}

/* If one of the folders is the train split, the classes are the folders in it. */
static ff_status classes_of_folder(ff_source *source, size_t field, const char *path, bool inner,
                                   ff_error *error) {
    ff_names names;
    FF_TRY(ff_names_read(&names, path, is_class_folder, error));
    ff_status status = FF_OK;
    size_t count = 0;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        const char *name = ff_names_at(&names, i);
        struct stat info;
        char *folder;
        status = ff_path_join(&folder, path, name, error);
        if (status != FF_OK) break;
        bool is_folder = stat(folder, &info) == 0 && S_ISDIR(info.st_mode);
        if (is_folder && !inner && ff_split_rank(name, strlen(name)) == 0) {
            ff_names_free(&names);
            status = classes_of_folder(source, field, folder, true, error);
            free(folder);
            return status;
        }
        free(folder);
        if (is_folder) names.offset[count++] = names.offset[i];
    }
    for (size_t i = 0; i < count && status == FF_OK; i++)
        status = ff_metadata_add_class(&source->labels, field, ff_names_at(&names, i), error);
    ff_names_free(&names);
    if (status == FF_OK && !count)
        status = ff_fail(error, FF_BAD_DATA,
                         "--classes-from: %s is not a packed set and holds no class folders", path);
    return status;
}

ff_status ff_source_read_classes(ff_source *source, size_t field, const char *path,
                                 ff_error *error) {
    if (source->classes_from) {
        bool set;
        FF_TRY(classes_of_set(source, field, path, &set, error));
        return set ? FF_OK : classes_of_folder(source, field, path, false, error);
    }
    char *text;
    FF_TRY(ff_text_read(path, &text, error));
    ff_status status = ff_source_take_classes(source, field, path, text, error);
    free(text);
    return status;
}

/* ---- class folders ------------------------------------------------------------------------- */

/* The name of the first split in messages. */
static const char *first_split(const ff_source *source) {
    return source->split[0].root ? source->split[0].root : source->split[0].name;
}

static ff_status differ(const ff_source *source, const char *where, size_t index, const char *here,
                        const char *first, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "%s: class %zu is folder %s, but %s has %s%s; the splits must have the same "
                   "class folders, or be packed one by one, or --classes FILE has to name them all",
                   where, index, here, first_split(source), first ? "folder " : "none",
                   first ? first : "");
}

/* The class folders of the first split define the classes. Both lists are in the order of bytes. */
static ff_status take_folders(ff_source *source, const char *where, const ff_names *folders,
                              int32_t *label, ff_error *error) {
    const ff_field *field = &source->labels.field[0];
    bool first = !field->class_count;
    size_t at = 0;
    const char *lacking = NULL;
    for (size_t i = 0; i < folders->count; i++, at++) {
        const char *here = ff_names_at(folders, i);
        if (first) FF_TRY(ff_metadata_add_class(&source->labels, 0, here, error));
        for (; at < field->class_count && strcmp(field->class_name[at], here) < 0; at++)
            if (!lacking) lacking = field->class_name[at];
        if (at == field->class_count || strcmp(field->class_name[at], here) != 0)
            return differ(source, where, i, here,
                          i < field->class_count ? field->class_name[i] : NULL, error);
        label[i] = (int32_t)at;
    }
    if (!lacking && at < field->class_count) lacking = field->class_name[at];
    if (!lacking || source->allow_empty_classes) return FF_OK;
    return ff_fail(
        error, FF_BAD_DATA,
        "%s: has no class folder %s, which %s has; --allow-empty-classes packs it with the numbers of %s",
        where, lacking, first_split(source), first_split(source));
}

static int compare_to_class(const void *name, const void *class_name) {
    return strcmp(name, **(char **const *)class_name);
}

/* The lines of the file are the classes; it may name classes without a folder. */
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
            status = ff_fail(error, FF_BAD_DATA, "%s: folder %s is not a class that %s names",
                             where, name, source->classes);
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
