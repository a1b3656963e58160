#include "format/dtype.h"

#include "format/base/compiler.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
    bool is_float;
} dtypes[FF_DTYPE_COUNT] = {
    [FF_U8] = {"u8", 1, false},    [FF_U16] = {"u16", 2, false}, [FF_F16] = {"f16", 2, true},
    [FF_BF16] = {"bf16", 2, true}, [FF_F32] = {"f32", 4, true},  [FF_I32] = {"i32", 4, false},
    [FF_I64] = {"i64", 8, false},
};

const char *ff_dtype_name(ff_dtype dtype) {
    return dtypes[dtype].name;
}

size_t ff_dtype_bytes(ff_dtype dtype) {
    return dtypes[dtype].bytes;
}

bool ff_dtype_is_float(ff_dtype dtype) {
    return dtypes[dtype].is_float;
}

const char *ff_layout_name(ff_layout layout) {
    return layout == FF_CHW ? "chw" : "hwc";
}

/* Branch-free but for selects, so that loops over it vectorize. */
static inline uint16_t f16_bits(float value) {
    uint32_t bits = ff_float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    /* Normal results: rebias the exponent, round to nearest even on the 13 dropped bits. */
    uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13;
    /* Subnormal results: adding 0.5 makes the FPU round at 2^-24, to nearest even. */
    uint32_t subnormal = ff_float_bits(ff_bits_float(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
    if (magnitude >= 0x47800000u) result = 0x7c00u; /* beyond the largest exponent; infinity */
    if (magnitude > 0x7f800000u) result = 0x7e00u | (magnitude >> 13 & 0x1ffu);
    return (uint16_t)(sign | result);
}

static inline float f16_value(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t shifted = (uint32_t)(half & 0x7fffu) << 13;
    /* Scaling by 2^112 rebias the exponent and normalizes subnormals exactly. */
    uint32_t finite = ff_float_bits(ff_bits_float(shifted) * 0x1p112f);
    uint32_t special = shifted | 0x7f800000u;
    return ff_bits_float(sign | ((half & 0x7c00u) == 0x7c00u ? special : finite));
}

static inline uint16_t bf16_bits(float value) {
    uint32_t bits = ff_float_bits(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

uint16_t ff_f16_from_f32(float value) {
    return f16_bits(value);
}

uint16_t ff_bf16_from_f32(float value) {
    return bf16_bits(value);
}

float ff_f32_from_f16(uint16_t bits) {
    return f16_value(bits);
}

double ff_element(const void *array, ff_dtype dtype, size_t index) {
    const char *at = (const char *)array + index * dtypes[dtype].bytes;
    switch (dtype) {
    case FF_U8: return *(const uint8_t *)at;
    case FF_U16: return ff_load_u16(at);
    case FF_F16: return (double)f16_value(ff_load_u16(at));
    case FF_BF16: return (double)ff_f32_from_bf16(ff_load_u16(at));
    case FF_F32: return (double)ff_bits_float(ff_load_u32(at));
    case FF_I32: return (int32_t)ff_load_u32(at);
    case FF_I64: return (double)(int64_t)ff_load_u64(at);
    case FF_DTYPE_COUNT: break;
    }
    assert(!"dtype");
    return 0;
}

FF_CLONES static void f32_to_f16(uint16_t *restrict to, const float *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = f16_bits(from[i]);
}

FF_CLONES static void f16_to_f32(float *restrict to, const uint16_t *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = f16_value(from[i]);
}

FF_CLONES static void f32_to_bf16(uint16_t *restrict to, const float *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = bf16_bits(from[i]);
}

static void store_float(void *to, ff_dtype dtype, size_t index, float value) {
    char *at = (char *)to + index * dtypes[dtype].bytes;
    if (dtype == FF_F32)
        ff_store_u32(at, ff_float_bits(value));
    else
        ff_store_u16(at, dtype == FF_F16 ? f16_bits(value) : bf16_bits(value));
}

void ff_convert(void *to, ff_dtype to_dtype, const void *from, ff_dtype from_dtype, size_t count) {
    if (to_dtype == from_dtype) {
        memcpy(to, from, count * dtypes[to_dtype].bytes);
    } else if (to_dtype == FF_F16 && from_dtype == FF_F32) {
        f32_to_f16(to, from, count);
    } else if (to_dtype == FF_F32 && from_dtype == FF_F16) {
        f16_to_f32(to, from, count);
    } else if (to_dtype == FF_BF16 && from_dtype == FF_F32) {
        f32_to_bf16(to, from, count);
    } else {
        assert(dtypes[to_dtype].is_float);
        for (size_t i = 0; i < count; i++)
            store_float(to, to_dtype, i, (float)ff_element(from, from_dtype, i));
    }
}
