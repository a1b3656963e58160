/* A label column of a list: its kind, found in one pass over its cells, and each cell's value as
 * the bytes of a label field.
 *
 * Kinds, unless the header or --label-kind names one:
 * - all cells are whole numbers: classes, i32, or i64 if they need it. "2.0" is whole, as pandas
 *   writes a column with a missing value;
 * - all are numbers, or the same count of numbers with spaces or ';' between: a vector, f32;
 * - all are names, some with ';' or '|' between that also occur in other cells: multi-hot, u8, one
 *   value per name; an empty cell names nothing. If no part occurs again, the cell may be the name
 *   of one class, and the list is refused;
 * - all are names: classes by name.
 * A mixture of numbers and names is refused, because it is usually a mistake, and so are nan and
 * inf. A list of --labels takes one class a cell, and refuses cells of several names that recur. -1
 * is an item without a label in columns of classes, and does not decide their kind. With the kind
 * class one name or number is a class; with names numbers are names, too; with multi-hot all are
 * names separated by ';' or '|'; with value all are numbers. Names are numbered in the order of
 * their bytes, or are known classes; then class_numbers.h decides which class a number means.
 * Blanks around a name or number are ignored. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_LIST_COLUMN_H
#define FF_FFPACK_LIST_COLUMN_H

#include "tools/ffpack/source/class_numbers.h"
#include "tools/ffpack/source/class_set.h"
#include "tools/ffpack/source/list/cell.h"

typedef enum ff_list_kind {
    FF_LIST_AUTO, /* until ff_list_column_decide */
    FF_LIST_CLASS,
    FF_LIST_MULTI,
    FF_LIST_VECTOR,
} ff_list_kind;

typedef struct ff_list_column {
    char *name; /* the header's; NULL = none. Owned */
    ff_list_kind kind;
    ff_label_kind asked; /* the header's or --label-kind's */
    bool classes_only;   /* for --labels: no other kind */
    /* The first line with each; 0 = none. A point_line has a whole number like 2.0. */
    uint64_t whole_line, point_line, number_line, name_line, joined_line, empty_line, uneven_line;
    uint64_t missing_line;    /* nan or inf */
    char joined[64];          /* the cell in joined_line */
    int64_t least, most;      /* the whole numbers' */
    uint32_t width;           /* numbers in the first cell of numbers */
    uint32_t uneven_width;    /* uneven_line's */
    bool named;               /* decided: labels are names */
    ff_class_set names;       /* the known classes', else ff_list_column_collect's */
    ff_class_set cells;       /* different ones of a multi-hot column, until: */
    bool recurs;              /* a name in one cell with others is in another cell, too */
    bool fixed;               /* the classes are known */
    const char *fixed_by;     /* for messages */
    ff_class_numbers numbers; /* of the known classes */
    uint32_t *rank;           /* number of each name of `names`; NULL = its own. Owned */
} ff_list_column;

/* Examines a cell. */
FF_MUST_USE ff_status ff_list_column_survey(ff_list_column *column, uint64_t line, const char *cell,
                                            ff_error *error);
/* Sets kind, named and width; the error names the line. */
FF_MUST_USE ff_status ff_list_column_decide(ff_list_column *column, ff_error *error);
/* The classes are the field's names, which must not change; `by` (not owned) names them. Before or
 * after the column is decided. */
FF_MUST_USE ff_status ff_list_column_fix(ff_list_column *column, const ff_field *field,
                                         const char *by, ff_error *error);
/* Whether a decided column needs all its cells once more, by ff_list_column_collect. */
bool ff_list_column_collects(const ff_list_column *column);
FF_MUST_USE ff_status ff_list_column_collect(ff_list_column *column, uint64_t line,
                                             const char *cell, ff_error *error);
/* After all were collected: which class a number means. */
FF_MUST_USE ff_status ff_list_column_settle(ff_list_column *column, ff_error *error);
/* How the numbers of known classes are read, allocated; NULL if there is only one way. */
FF_MUST_USE ff_status ff_list_column_say(const ff_list_column *column, char **text,
                                         ff_error *error);

/* Writes a value of a decided column whose names are known. */
ff_dtype ff_list_column_dtype(const ff_list_column *column);
uint32_t ff_list_column_width(const ff_list_column *column);
/* Stores the cell's value: width x dtype bytes. */
FF_MUST_USE ff_status ff_list_column_value(const ff_list_column *column, uint64_t line,
                                           const char *cell, void *value, ff_error *error);

void ff_list_column_free(ff_list_column *column);

#endif
