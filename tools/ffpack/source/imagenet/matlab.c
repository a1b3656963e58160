#include "tools/ffpack/source/imagenet/matlab.h"

#include "format/base/bytes.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define UNPACKED_LIMIT_BYTES (UINT64_C(64) << 20)
enum { HEADER_BYTES = 128, FIELDS_LIMIT = 256, WANTED_LIMIT = 16 };
enum { /* data types */
       INT8 = 1,
       UINT8,
       INT16,
       UINT16,
       INT32,
       UINT32,
       SINGLE,
       DOUBLE = 9,
       INT64 = 12,
       UINT64,
       MATRIX,
       COMPRESSED,
       UTF8
};
enum { CLASS_STRUCT = 2, CLASS_CHAR = 4 }; /* array classes */

/* The rest of a sequence of elements. */
typedef struct cursor {
    const uint8_t *at, *end;
} cursor;

typedef struct element {
    uint32_t type;
    cursor data;
} element;

typedef struct reader {
    const char *path;
    const char *name;
    const char *const *field;
    size_t field_count;
    ff_status (*take)(void *context, const ff_matlab_value *value, ff_error *error);
    void *context;
    bool found;
} reader;

static ff_status broken(const reader *from, const char *what, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "%s: broken MAT-file: %s", from->path, what);
}

/* The next element; a tag whose upper half is not zero holds its data itself. */
static ff_status next_element(const reader *from, cursor *left, element *out, ff_error *error) {
    *out = (element){0};
    size_t size = (size_t)(left->end - left->at);
    if (size < 8) return broken(from, "an element's tag is cut off", error);
    uint32_t type = ff_load_u32(left->at), bytes = ff_load_u32(left->at + 4);
    size_t begin = 8;
    if (type >> 16) {
        bytes = type >> 16;
        type &= 0xffff;
        begin = 4;
        if (bytes > 4) return broken(from, "a small element has more than 4 bytes", error);
    }
    if (bytes > size - begin) return broken(from, "an element is longer than what holds it", error);
    *out = (element){type, {left->at + begin, left->at + begin + bytes}};
    size_t step = begin == 4 ? 8 : 8 + (size_t)bytes;
    if (type != COMPRESSED) step = (step + 7) & ~(size_t)7;
    left->at += step < size ? step : size;
    return FF_OK;
}

static double number_of(const element *data) {
    const uint8_t *at = data->data.at;
    size_t bytes = (size_t)(data->data.end - at);
    uint64_t bits = 0;
    memcpy(&bits, at, bytes < 8 ? bytes : 8);
    float single;
    double wide;
    switch (data->type) {
    case INT8: return (int8_t)bits;
    case UINT8: return (uint8_t)bits;
    case INT16: return (int16_t)bits;
    case UINT16: return (uint16_t)bits;
    case INT32: return (int32_t)bits;
    case UINT32: return (uint32_t)bits;
    case INT64: return (double)(int64_t)bits;
    case UINT64: return (double)bits;
    case SINGLE: memcpy(&single, &bits, sizeof single); return (double)single;
    case DOUBLE: memcpy(&wide, &bits, sizeof wide); return wide;
    default: return 0;
    }
}

static size_t width_of(uint32_t type) {
    switch (type) {
    case INT8:
    case UINT8:
    case UTF8: return 1;
    case INT16:
    case UINT16: return 2;
    case INT32:
    case UINT32:
    case SINGLE: return 4;
    case DOUBLE:
    case INT64:
    case UINT64: return 8;
    default: return 0;
    }
}

/* Flags, dimensions and name of a matrix; *count = the product of the dimensions. */
static ff_status read_head(const reader *from, cursor *left, uint32_t *class_number,
                           uint64_t *count, cursor *name, ff_error *error) {
    element flags = {0}, dimensions = {0}, called = {0};
    *class_number = 0;
    *count = 0;
    FF_TRY(next_element(from, left, &flags, error));
    FF_TRY(next_element(from, left, &dimensions, error));
    FF_TRY(next_element(from, left, &called, error));
    size_t bytes = (size_t)(dimensions.data.end - dimensions.data.at);
    if (flags.data.end - flags.data.at < 8 || dimensions.type != INT32 || bytes % 4)
        return broken(from, "a matrix without flags or dimensions", error);
    *class_number = ff_load_u32(flags.data.at) & 0xff;
    *count = 1;
    for (size_t i = 0; i < bytes; i += 4)
        if (!ff_mul_u64(*count, ff_load_u32(dimensions.data.at + i), count))
            return broken(from, "the product of a matrix's dimensions overflows", error);
    *name = called.data;
    return FF_OK;
}

/* One value of the struct, itself a matrix. */
static ff_status read_value(const reader *from, const element *matrix, ff_matlab_value *value,
                            ff_error *error) {
    *value = (ff_matlab_value){0};
    cursor left = matrix->data, name = {0};
    if (left.at == left.end) return FF_OK; /* empty */
    uint32_t class_number = 0;
    uint64_t count = 0;
    element data = {0};
    FF_TRY(read_head(from, &left, &class_number, &count, &name, error));
    if (class_number < CLASS_CHAR) return FF_OK;
    if (left.at == left.end) return FF_OK;
    FF_TRY(next_element(from, &left, &data, error));
    size_t width = width_of(data.type), bytes = (size_t)(data.data.end - data.data.at);
    if (!width || bytes < width) return FF_OK;
    if (class_number != CLASS_CHAR) {
        value->is_number = true;
        value->number = number_of(&data);
        return FF_OK;
    }
    value->is_text = true;
    for (size_t i = 0; (i + 1) * width <= bytes && i + 1 < sizeof value->text; i++)
        value->text[i] = (char)data.data.at[i * width];
    return FF_OK;
}

/* The elements of the array: for each its fields, one matrix per field. */
static ff_status read_elements(const reader *from, cursor left, uint64_t count, ff_error *error) {
    element length = {0}, names = {0};
    FF_TRY(next_element(from, &left, &length, error));
    FF_TRY(next_element(from, &left, &names, error));
    size_t name_bytes = length.data.end - length.data.at >= 4 ? ff_load_u32(length.data.at) : 0;
    size_t bytes = (size_t)(names.data.end - names.data.at);
    if (!name_bytes || bytes % name_bytes || bytes / name_bytes > FIELDS_LIMIT)
        return broken(from, "a struct's field names have no sound length", error);
    size_t fields = bytes / name_bytes, place[FIELDS_LIMIT];
    size_t wanted = 0;
    for (size_t i = 0; i < fields; i++) {
        const char *name = (const char *)names.data.at + i * name_bytes;
        place[i] = WANTED_LIMIT;
        for (size_t k = 0; k < from->field_count; k++)
            if (strnlen(name, name_bytes) == strlen(from->field[k]) &&
                !strncmp(name, from->field[k], name_bytes)) {
                place[i] = k;
                wanted++;
            }
    }
    if (wanted != from->field_count)
        return ff_fail(error, FF_BAD_DATA, "%s: the struct %s lacks a field, wanted %s, ...",
                       from->path, from->name, from->field[0]);
    for (uint64_t i = 0; i < count; i++) {
        ff_matlab_value value[WANTED_LIMIT];
        for (size_t k = 0; k < fields; k++) {
            element matrix;
            FF_TRY(next_element(from, &left, &matrix, error));
            if (matrix.type != MATRIX)
                return broken(from, "a struct's field is not a matrix", error);
            if (place[k] < WANTED_LIMIT) FF_TRY(read_value(from, &matrix, &value[place[k]], error));
        }
        FF_TRY(from->take(from->context, value, error));
    }
    return FF_OK;
}

static ff_status read_matrix(reader *from, const element *matrix, ff_error *error) {
    cursor left = matrix->data, name = {0};
    uint32_t class_number = 0;
    uint64_t count = 0;
    FF_TRY(read_head(from, &left, &class_number, &count, &name, error));
    size_t name_bytes = (size_t)(name.end - name.at);
    if (class_number != CLASS_STRUCT || name_bytes != strlen(from->name) ||
        memcmp(name.at, from->name, name_bytes) != 0)
        return FF_OK;
    from->found = true;
    return read_elements(from, left, count, error);
}

static ff_status read_compressed(reader *from, const element *packed, ff_error *error) {
    z_stream zlib = {0};
    if (inflateInit(&zlib) != Z_OK)
        return ff_fail(error, FF_NO_MEMORY, "%s: not enough memory to decompress", from->path);
    zlib.next_in = (unsigned char *)(uintptr_t)packed->data.at;
    zlib.avail_in = (uInt)(packed->data.end - packed->data.at);
    uint8_t *bytes = NULL;
    size_t capacity = 0, used = 0;
    ff_status status = FF_OK;
    for (int result = Z_OK; result == Z_OK && status == FF_OK;) {
        status = ff_reserve(&bytes, &capacity, used + (1 << 16), 1, "a MAT-file", error);
        if (status != FF_OK) break;
        zlib.next_out = bytes + used;
        zlib.avail_out = (uInt)(capacity - used);
        result = inflate(&zlib, Z_NO_FLUSH);
        used = capacity - zlib.avail_out;
        if ((result != Z_OK && result != Z_STREAM_END) || used > UNPACKED_LIMIT_BYTES)
            status = broken(from, "its data cannot be decompressed", error);
    }
    inflateEnd(&zlib);
    cursor left = {bytes, bytes + used};
    element inside;
    if (status == FF_OK) status = next_element(from, &left, &inside, error);
    if (status == FF_OK && inside.type == MATRIX) status = read_matrix(from, &inside, error);
    free(bytes);
    return status;
}

ff_status ff_matlab_struct(const uint8_t *bytes, size_t length, const char *path, const char *name,
                           const char *const *field, size_t field_count,
                           ff_status (*take)(void *context, const ff_matlab_value *value,
                                             ff_error *error),
                           void *context, ff_error *error) {
    reader from = {.path = path,
                   .name = name,
                   .field = field,
                   .field_count = field_count,
                   .take = take,
                   .context = context};
    if (length < HEADER_BYTES || memcmp(bytes + 124, "\x00\x01IM", 4) != 0)
        return ff_fail(error, FF_BAD_DATA, "%s: is not a MAT-file of level 5, little-endian", path);
    cursor left = {bytes + HEADER_BYTES, bytes + length};
    while (left.at < left.end && !from.found) {
        element next;
        FF_TRY(next_element(&from, &left, &next, error));
        if (next.type == COMPRESSED) FF_TRY(read_compressed(&from, &next, error));
        if (next.type == MATRIX) FF_TRY(read_matrix(&from, &next, error));
    }
    if (!from.found) return ff_fail(error, FF_BAD_DATA, "%s: holds no struct array %s", path, name);
    return FF_OK;
}
