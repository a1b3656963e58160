/* The element types of NumPy and IDX arrays, in either byte order, and their values. Thread rule:
 * everything here is pure. */
#ifndef FF_FFPACK_SOURCE_ELEMENT_H
#define FF_FFPACK_SOURCE_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ff_element_type {
    FF_ELEMENT_U8, /* zero: what images usually are */
    FF_ELEMENT_BOOL,
    FF_ELEMENT_I8,
    FF_ELEMENT_U16,
    FF_ELEMENT_I16,
    FF_ELEMENT_U32,
    FF_ELEMENT_I32,
    FF_ELEMENT_U64,
    FF_ELEMENT_I64,
    FF_ELEMENT_F16,
    FF_ELEMENT_F32,
    FF_ELEMENT_F64,
    FF_ELEMENT_COUNT
} ff_element_type;

/* "u8", "bool", "f32", ...; 1 to 8 bytes. */
const char *ff_element_name(ff_element_type element);
size_t ff_element_bytes(ff_element_type element);
bool ff_element_is_float(ff_element_type element);
/* Integers except u8 and bool: their range of intensities is not known. */
bool ff_element_needs_range(ff_element_type element);

/* NumPy's type string: "|u1", "<f4", ">i8", "u1", "?", ... False for any other string. */
bool ff_element_parse(const char *text, ff_element_type *element, bool *big_endian);

/* Element `index`, without any alignment, as a double (64-bit integers rounded to nearest) and, for
 * integers and bool, exactly; the result is false if a u64 is beyond int64_t. */
double ff_element_value(const void *from, ff_element_type element, bool big_endian, size_t index);
bool ff_element_integer(const void *from, ff_element_type element, bool big_endian, size_t index,
                        int64_t *value);

/* `count` elements as f32: floats and bool as they are (f64 rounded to nearest), integers as
 * (v - low) / (high - low) in double, rounded once. */
void ff_elements_to_f32(float *to, const void *from, ff_element_type element, bool big_endian,
                        size_t count, double low, double high);

/* `count` u16 elements in native byte order. */
void ff_elements_to_u16(uint16_t *to, const void *from, bool big_endian, size_t count);

#endif
