#include "tools/ffpack/source/parquet/reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct ff_parquet_column {
    ff_parquet parquet;
    ff_parquet_values *values;
    ff_parquet_value value; /* of the row before `next` */
    uint64_t next;
};

ff_status ff_parquet_column_open(ff_parquet_column **out, const char *path, const char *leaf,
                                 ff_error *error) {
    ff_parquet_column *column;
    *out = NULL;
    FF_TRY(ff_alloc(&column, 1, sizeof *column, "a column", error));
    ff_parquet *parquet = &column->parquet;
    size_t at = 0;
    ff_status status;
    FF_TRY_DONE(ff_parquet_open(parquet, path, error));
    while (at < parquet->leaf_count && strcmp(parquet->leaf[at].path, leaf) != 0) at++;
    if (at == parquet->leaf_count)
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "%s: changed since it was listed: no column %s",
                            path, leaf));
    FF_TRY_DONE(ff_parquet_values_open(&column->values, parquet, at, error));
done:
    if (status == FF_OK)
        *out = column;
    else
        ff_parquet_column_close(&column);
    return status;
}

ff_status ff_parquet_column_row(ff_parquet_column *column, uint64_t row, ff_parquet_value *value,
                                ff_error *error) {
    assert(row + 1 >= column->next);
    for (; column->next <= row; column->next++)
        FF_TRY(ff_parquet_values_next(column->values, &column->value, error));
    *value = column->value;
    return FF_OK;
}

void ff_parquet_column_close(ff_parquet_column **column) {
    if (!*column) return;
    ff_parquet_values_close(&(*column)->values);
    ff_parquet_close(&(*column)->parquet);
    free(*column);
    *column = NULL;
}
