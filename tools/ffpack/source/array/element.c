#include "tools/ffpack/source/array/element.h"

#include "format/disk/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    const char numpy[3]; /* kind and bytes */
    uint8_t bytes;
} types[FF_ELEMENT_COUNT] = {
    [FF_ELEMENT_U8] = {"u8", "u1", 1},   [FF_ELEMENT_BOOL] = {"bool", "b1", 1},
    [FF_ELEMENT_I8] = {"i8", "i1", 1},   [FF_ELEMENT_U16] = {"u16", "u2", 2},
    [FF_ELEMENT_I16] = {"i16", "i2", 2}, [FF_ELEMENT_U32] = {"u32", "u4", 4},
    [FF_ELEMENT_I32] = {"i32", "i4", 4}, [FF_ELEMENT_U64] = {"u64", "u8", 8},
    [FF_ELEMENT_I64] = {"i64", "i8", 8}, [FF_ELEMENT_F16] = {"f16", "f2", 2},
    [FF_ELEMENT_F32] = {"f32", "f4", 4}, [FF_ELEMENT_F64] = {"f64", "f8", 8},
};

const char *ff_element_name(ff_element_type element) {
    return types[element].name;
}

size_t ff_element_bytes(ff_element_type element) {
    return types[element].bytes;
}

bool ff_element_is_float(ff_element_type element) {
    return element >= FF_ELEMENT_F16;
}

bool ff_element_needs_range(ff_element_type element) {
    return element > FF_ELEMENT_BOOL && !ff_element_is_float(element);
}

bool ff_element_parse(const char *text, ff_element_type *element, bool *big_endian) {
    *big_endian = *text == '>';
    if (*text && strchr("<>=|", *text)) text++;
    if (!strcmp(text, "?")) text = "b1";
    for (int i = 0; i < FF_ELEMENT_COUNT; i++)
        if (!strcmp(text, types[i].numpy)) {
            *element = (ff_element_type)i;
            return true;
        }
    return false;
}

/* The bits of an element, zero-extended. */
static inline uint64_t load(const void *from, size_t bytes, bool big_endian, size_t index) {
    const char *at = (const char *)from + index * bytes;
    switch (bytes) {
    case 1: return *(const uint8_t *)at;
    case 2: return big_endian ? __builtin_bswap16(ff_load_u16(at)) : ff_load_u16(at);
    case 4: return big_endian ? __builtin_bswap32(ff_load_u32(at)) : ff_load_u32(at);
    default: return big_endian ? __builtin_bswap64(ff_load_u64(at)) : ff_load_u64(at);
    }
}

static inline double value_of(ff_element_type element, uint64_t bits) {
    double wide;
    switch (element) {
    case FF_ELEMENT_BOOL: return bits != 0;
    case FF_ELEMENT_I8: return (int8_t)bits;
    case FF_ELEMENT_I16: return (int16_t)bits;
    case FF_ELEMENT_I32: return (int32_t)bits;
    case FF_ELEMENT_I64: return (double)(int64_t)bits;
    case FF_ELEMENT_F16: return (double)ff_f32_from_f16((uint16_t)bits);
    case FF_ELEMENT_F32: return (double)ff_bits_float((uint32_t)bits);
    case FF_ELEMENT_F64: memcpy(&wide, &bits, sizeof wide); return wide;
    default: return (double)bits;
    }
}

double ff_element_value(const void *from, ff_element_type element, bool big_endian, size_t index) {
    return value_of(element, load(from, types[element].bytes, big_endian, index));
}

bool ff_element_integer(const void *from, ff_element_type element, bool big_endian, size_t index,
                        int64_t *value) {
    uint64_t bits = load(from, types[element].bytes, big_endian, index);
    switch (element) {
    case FF_ELEMENT_BOOL: *value = bits != 0; break;
    case FF_ELEMENT_I8: *value = (int8_t)bits; break;
    case FF_ELEMENT_I16: *value = (int16_t)bits; break;
    case FF_ELEMENT_I32: *value = (int32_t)bits; break;
    default: *value = (int64_t)bits;
    }
    return element != FF_ELEMENT_U64 || bits <= INT64_MAX;
}

/* Floats in native byte order, through aligned memory. */
static void floats_to_f32(float *to, const void *from, ff_dtype dtype, size_t count) {
    enum { BLOCK = 1024 };
    uint32_t aligned[BLOCK];
    size_t bytes = ff_dtype_bytes(dtype);
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t part = count - done < BLOCK ? count - done : BLOCK;
        memcpy(aligned, (const char *)from + done * bytes, part * bytes);
        ff_convert(to + done, FF_F32, aligned, dtype, part);
    }
}

/* One loop per type, so that the type is not tested inside it. */
#define CONVERT(type, expression)                                                                  \
    case type:                                                                                     \
        for (size_t i = 0; i < count; i++) {                                                       \
            double value = value_of(type, load(from, types[type].bytes, big_endian, i));           \
            to[i] = (float)(expression);                                                           \
        }                                                                                          \
        break;

void ff_elements_to_f32(float *to, const void *from, ff_element_type element, bool big_endian,
                        size_t count, double low, double high) {
    double width = high - low;
    bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && !big_endian;
    if (little && (element == FF_ELEMENT_F16 || element == FF_ELEMENT_F32)) {
        floats_to_f32(to, from, element == FF_ELEMENT_F16 ? FF_F16 : FF_F32, count);
        return;
    }
    switch (element) {
        CONVERT(FF_ELEMENT_U8, (value - low) / width)
        CONVERT(FF_ELEMENT_I8, (value - low) / width)
        CONVERT(FF_ELEMENT_U16, (value - low) / width)
        CONVERT(FF_ELEMENT_I16, (value - low) / width)
        CONVERT(FF_ELEMENT_U32, (value - low) / width)
        CONVERT(FF_ELEMENT_I32, (value - low) / width)
        CONVERT(FF_ELEMENT_U64, (value - low) / width)
        CONVERT(FF_ELEMENT_I64, (value - low) / width)
        CONVERT(FF_ELEMENT_BOOL, value)
        CONVERT(FF_ELEMENT_F16, value)
        CONVERT(FF_ELEMENT_F64, value)
    default:
        for (size_t i = 0; i < count; i++)
            to[i] = ff_bits_float((uint32_t)load(from, 4, big_endian, i));
    }
}

void ff_elements_to_u16(uint16_t *to, const void *from, bool big_endian, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = (uint16_t)load(from, 2, big_endian, i);
}
