/* Thrift's compact protocol, as parquet's footer and page headers are written in it
 * (github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md), read in place.
 *
 * A struct is fields: a byte with the type and the step from the last field's number, and the
 * value; a zero byte ends it. Each read checks that the bytes are there; after the first failure
 * `broken` is set and all reads return zeros. Thread rule: pure. */
#ifndef FF_FFPACK_PARQUET_THRIFT_H
#define FF_FFPACK_PARQUET_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ff_thrift_type {
    FF_THRIFT_STOP,
    FF_THRIFT_TRUE,
    FF_THRIFT_FALSE,
    FF_THRIFT_I8,
    FF_THRIFT_I16,
    FF_THRIFT_I32,
    FF_THRIFT_I64,
    FF_THRIFT_DOUBLE,
    FF_THRIFT_BINARY,
    FF_THRIFT_LIST,
    FF_THRIFT_SET,
    FF_THRIFT_MAP,
    FF_THRIFT_STRUCT,
} ff_thrift_type;

typedef struct ff_thrift {
    const unsigned char *at, *end;
    bool broken;
    int depth;
} ff_thrift; /* at and end set; the rest zero */

typedef struct ff_thrift_field {
    int16_t number; /* of the field; set to 0 before the first ff_thrift_next of a struct */
    ff_thrift_type type;
} ff_thrift_field;

typedef struct ff_thrift_text {
    const char *bytes; /* in the message, not zero-terminated */
    size_t length;
} ff_thrift_text;

/* The next field of a struct: true, and its value must be read or skipped; false at the end. */
bool ff_thrift_next(ff_thrift *from, ff_thrift_field *field);
/* The value of a field of type I8 to I64 (of another type it is skipped, and 0). */
int64_t ff_thrift_integer(ff_thrift *from, const ff_thrift_field *field);
bool ff_thrift_bool(ff_thrift *from, const ff_thrift_field *field);
ff_thrift_text ff_thrift_binary(ff_thrift *from, const ff_thrift_field *field);
/* Begins a list: the number of its elements, whose type is *element; each must be read or skipped,
 * by a field of this type. 0 for a field of another type, which is skipped. */
uint32_t ff_thrift_list(ff_thrift *from, const ff_thrift_field *field, ff_thrift_field *element);
/* Whether the field is a struct, whose fields come next; another type is skipped. */
bool ff_thrift_struct(ff_thrift *from, const ff_thrift_field *field);
void ff_thrift_skip(ff_thrift *from, const ff_thrift_field *field);

#endif
