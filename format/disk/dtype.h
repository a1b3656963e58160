/* Element types and layouts of samples, and exact conversions between the types. Thread rule:
 * everything here is pure. */
#ifndef FF_FORMAT_DTYPE_H
#define FF_FORMAT_DTYPE_H

#include "format/base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* These values are not stored: files name types by the strings of ff_dtype_name. Samples have types
 * u8 to f32; the integers after f32 are for labels. */
typedef enum ff_dtype {
    FF_U8,
    FF_U16,
    FF_F16,
    FF_BF16,
    FF_F32,
    FF_I32,
    FF_I64,
    FF_DTYPE_COUNT
} ff_dtype;

/* Order of a sample's axes in memory: CHW = planes, HWC = interleaved channels. */
typedef enum ff_layout { FF_CHW, FF_HWC } ff_layout;

/* "u8" "u16" "f16" "bf16" "f32" "i32" "i64"; bytes of one element: 1 2 2 2 4 4 8. */
const char *ff_dtype_name(ff_dtype dtype);
size_t ff_dtype_bytes(ff_dtype dtype);
bool ff_dtype_is_float(ff_dtype dtype);
/* NumPy's name, "<f2"; bf16 is "<u2", its bits. */
const char *ff_dtype_numpy(ff_dtype dtype);
/* The choices of the option --dtype, the default first; and the dtype of a choice. */
#define FF_DTYPE_CHOICES "f16|f32|bf16|u8|u16"
ff_dtype ff_dtype_choice(int index);
/* "chw" or "hwc". */
const char *ff_layout_name(ff_layout layout);

/* f32 -> f16 and bf16, rounded to nearest even, as IEEE 754 and PyTorch do; NaN stays NaN (quiet),
 * overflow becomes infinity, subnormals are kept. */
uint16_t ff_f16_from_f32(float value);
static inline uint16_t ff_bf16_from_f32(float value) {
    const uint32_t bits = ff_float_bits(value);
    const uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1), quiet = bits | 0x400000u;
    return (uint16_t)((value != value ? quiet : rounded) >> 16);
}
/* Exact. */
float ff_f32_from_f16(uint16_t bits);
static inline float ff_f32_from_bf16(uint16_t bits) {
    return ff_bits_float((uint32_t)bits << 16);
}

/* Element `index` of an array of any dtype as a double (exact except for i64 beyond 2^53). */
double ff_element(const void *array, ff_dtype dtype, size_t index);

/* Whether none of `count` elements is inf or NaN. */
bool ff_all_finite(const void *array, ff_dtype dtype, size_t count);

/* Converts `count` elements. Between floats: exact or rounded to nearest even; from integers
 * to floats: the integer's value, rounded once. Other pairs are the caller's bug (assert). */
void ff_convert(void *to, ff_dtype to_dtype, const void *from, ff_dtype from_dtype, size_t count);

#endif
