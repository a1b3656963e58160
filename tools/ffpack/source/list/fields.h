/* The label fields of a list: its columns, the header, and the resulting fields in the metadata
 * (rules: list.c). Order of calls: begin with the first row; survey every row except the header;
 * make; collect every row, if make requires it; finish; then the values of any row. Thread rule:
 * one thread at a time. */
#ifndef FF_FFPACK_LIST_FIELDS_H
#define FF_FFPACK_LIST_FIELDS_H

#include "tools/ffpack/source/list/column.h"
#include "tools/ffpack/source/list/header.h"
#include "tools/ffpack/source/source.h"

/* A label field: columns [first, first + count). */
typedef struct ff_list_field {
    size_t first, count;
} ff_list_field;

typedef struct ff_list_fields {
    ff_source *source;     /* gets the fields and their classes */
    ff_list_header header; /* the first row's */
    size_t column_count;
    ff_list_column *column; /* [column_count] */
    bool *used;             /* [column_count] is a label that is kept */
    size_t field_count;
    ff_list_field *field;
    size_t label_bytes; /* all fields' values, one after the other */
} ff_list_fields;

FF_MUST_USE ff_status ff_list_fields_begin(ff_list_fields *fields, ff_source *source,
                                           const ff_table_row *first, ff_error *error);
FF_MUST_USE ff_status ff_list_fields_survey(ff_list_fields *fields, const ff_table_row *row,
                                            ff_error *error);
/* *collect = whether there are columns whose cells are to be collected. */
FF_MUST_USE ff_status ff_list_fields_make(ff_list_fields *fields, bool *collect, ff_error *error);
FF_MUST_USE ff_status ff_list_fields_collect(ff_list_fields *fields, const ff_table_row *row,
                                             ff_error *error);
FF_MUST_USE ff_status ff_list_fields_finish(ff_list_fields *fields, ff_error *error);
/* Stores the label_bytes of a row. */
FF_MUST_USE ff_status ff_list_fields_values(const ff_list_fields *fields, const ff_table_row *row,
                                            void *labels, ff_error *error);
void ff_list_fields_free(ff_list_fields *fields);

#endif
