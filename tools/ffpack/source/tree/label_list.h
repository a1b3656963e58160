/* The labels of images by their names: a table (list/table.h) with one line per image, its name and
 * its class. Without a header (list/header.h) the name is the first cell, the class the second.
 * tiny-imagenet's val_annotations.txt is one.
 *
 * A line's name is an image's path in its split's folder or its name alone, each with or without
 * its ending; the path may begin at a folder of `roots`. Lines that name no image are counted, and
 * decide nothing: neither whether classes are names or numbers, nor which classes there are.
 * Further columns are named in the summary if the class's column is clear: by --label or --columns,
 * by its title (label, class, target), or without a header as names next to numbers (boxes); else
 * the list is refused. Classes are names, or whole numbers (list/column.h). Memory: the names and
 * classes of all lines. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_LABEL_LIST_H
#define FF_FFPACK_SOURCE_LABEL_LIST_H

#include "tools/ffpack/source/list/column.h"
#include "tools/ffpack/source/list/header.h"
#include "tools/ffpack/source/names.h"

typedef struct ff_label_list {
    char *path;     /* for messages */
    ff_names roots; /* "/data/set/test/", "test/"; filled before it is read. Owned */
    char *columns;  /* the further columns, "b, c"; NULL = none. Owned */
    char *roles; /* which columns are used, if a header or --columns decides it; or NULL. Owned */
    size_t class_column;
    char *class_title;    /* the column's, or its number. Owned */
    bool chosen;          /* by --label */
    bool unclear;         /* which column has the classes */
    bool numbers;         /* the further columns hold numbers only, as boxes do */
    ff_names name, klass; /* one per line */
    uint64_t *line;       /* [name.count] its number in the file */
    size_t line_capacity;
    size_t *sorted;   /* [name.count] lines by name */
    bool *used;       /* [name.count] by an image */
    bool *whole;      /* [name.count]: of which it is the whole key */
    uint64_t marked;  /* images with a line */
    uint64_t missing; /* images without one */
    char *first_missing;
    ff_list_column column;
    bool decided;
} ff_label_list; /* zero-initialised {0} */

/* Reads the table, and closes it. `label`: the title of the classes' column, or NULL; `columns`:
 * --columns, or NULL. Must be freed also after a failure. */
FF_MUST_USE ff_status ff_label_list_read(ff_label_list *list, const char *path, const char *label,
                                         const char *columns, ff_table *table, ff_error *error);
/* Whether a line names the image. */
bool ff_label_list_holds(const ff_label_list *list, const char *key, size_t bytes);
/* Notes that there is an image of this name. FF_BAD_DATA if a line matches two images. */
FF_MUST_USE ff_status ff_label_list_mark(ff_label_list *list, const char *key, size_t bytes,
                                         ff_error *error);
/* Decides the classes, after all images were marked. Field `field` of `labels` gets the names if it
 * has no names; else its names are the classes, called `known_by` in messages; `listed`: they come
 * from another list. *said = a note for the summary on how this was done and what was left out, or
 * NULL; allocated. */
FF_MUST_USE ff_status ff_label_list_decide(ff_label_list *list, ff_label_kind kind,
                                           ff_metadata *labels, size_t field, const char *known_by,
                                           bool listed, char **said, ff_error *error);
/* The class of an image; *found = false if no line names it. */
FF_MUST_USE ff_status ff_label_list_label(const ff_label_list *list, const char *key, size_t bytes,
                                          int32_t *label, bool *found, ff_error *error);
/* The number of lines that name no image; *example = the first. */
uint64_t ff_label_list_unused(const ff_label_list *list, const char **example);
void ff_label_list_free(ff_label_list *list);

#endif
