/* A label column of a list: its kind, found in one pass over its cells, and each cell's value as
 * the bytes of a label field.
 *
 * Kinds, where the header does not say one:
 * - all cells are whole numbers: classes, i32, or i64 where they need it;
 * - all are numbers, or as many numbers with spaces or ';' between: a vector, f32;
 * - all are names, some with ';' or '|' between: multi-hot, u8, one value per name; an empty cell
 *   is none;
 * - all are names: classes by name.
 * A mixture of numbers and names is refused, because it is usually a mistake. With the kind class
 * all are names; with multi all are names separated by ';' or '|'; with vector all are numbers.
 * Names are numbered in the order of their bytes, or of --classes FILE. Blanks around a name or
 * number are ignored. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_LIST_COLUMN_H
#define FF_FFPACK_LIST_COLUMN_H

#include "tools/ffpack/source/class_set.h"

#define FF_LIST_WIDTH_LIMIT 65536u /* values of a vector or multi-hot label */

typedef enum ff_list_kind {
    FF_LIST_AUTO, /* until ff_list_column_decide */
    FF_LIST_CLASS,
    FF_LIST_MULTI,
    FF_LIST_VECTOR,
} ff_list_kind;

typedef struct ff_list_column {
    char *name; /* the header's; NULL = none. Owned */
    ff_list_kind kind;
    bool explicit_kind;
    /* Seen: the first line with each; 0 = none. */
    uint64_t whole_line, number_line, name_line, joined_line, empty_line, uneven_line;
    int64_t least, most;   /* of the whole numbers */
    uint32_t width;        /* numbers in the first cell of numbers */
    uint32_t uneven_width; /* of uneven_line */
    bool named;            /* decided: labels are names */
    ff_class_set names;    /* of --classes if given, else of ff_list_column_collect */
    bool fixed;            /* names are those of --classes, or of: */
    const char *fixed_by;  /* for messages; NULL = "--classes" */
    uint32_t *rank;        /* number of each name of `names`; NULL = its own. Owned */
    uint32_t class_count;  /* with --classes on whole numbers; 0 = any */
} ff_list_column;

/* Examines a cell. */
FF_MUST_USE ff_status ff_list_column_survey(ff_list_column *column, uint64_t line, const char *cell,
                                            ff_error *error);
/* Sets kind, named and width; the error names the line. */
FF_MUST_USE ff_status ff_list_column_decide(ff_list_column *column, ff_error *error);
/* Adds a cell's names, where the column is named and not fixed. */
FF_MUST_USE ff_status ff_list_column_collect(ff_list_column *column, uint64_t line,
                                             const char *cell, ff_error *error);

/* Of a value of a decided column whose names are known. */
ff_dtype ff_list_column_dtype(const ff_list_column *column);
uint32_t ff_list_column_width(const ff_list_column *column);
/* Stores the cell's value: width x dtype bytes. */
FF_MUST_USE ff_status ff_list_column_value(const ff_list_column *column, uint64_t line,
                                           const char *cell, void *value, ff_error *error);

void ff_list_column_free(ff_list_column *column);

#endif
