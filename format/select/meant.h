/* Evaluates an expression (where.h) for the samples of a set: reads the values of a sample that the
 * expression needs. Thread rule: one thread at a time. */
#ifndef FF_FORMAT_MEANT_H
#define FF_FORMAT_MEANT_H

#include "format/reader/reader.h"
#include "format/select/where.h"

/* Zero-initialised; released with ff_meant_close. */
typedef struct ff_meant {
    ff_dataset *dataset;
    ff_where *where;
    ff_reader *reader;
    double *field; /* [field_count] of a sample; only needed fields are read */
} ff_meant;

/* Binds `where`, which has been read, to the set; both must outlive `meant`. Close `meant` after a
 * failure too. Fails with FF_USAGE as ff_where_bind does. */
FF_MUST_USE ff_status ff_meant_open(ff_meant *meant, ff_dataset *dataset, ff_where *where,
                                    ff_error *error);
void ff_meant_close(ff_meant *meant);

/* *is = whether the expression selects sample `number` < count, which has this key, in a split of
 * this name. */
FF_MUST_USE ff_status ff_meant_look(ff_meant *meant, uint64_t number, const char *split,
                                    const char *key, size_t key_bytes, bool *is, ff_error *error);

#endif
