#include "format/disk/dtype.h"

#include "format/base/compiler.h"

#include <assert.h>
#include <string.h>

const char *ff_layout_name(ff_layout layout) {
    return layout == FF_CHW ? "chw" : "hwc";
}

/* ---- single values -------------------------------------------------------------------------- */

/* Only selects, no branches, so that loops over it vectorize. */
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
    /* Scaling by 2^112 rebiases the exponent and normalizes subnormals exactly. */
    uint32_t finite = ff_float_bits(ff_bits_float(shifted) * 0x1p112f);
    uint32_t special = shifted | 0x7f800000u;
    return ff_bits_float(sign | ((half & 0x7c00u) == 0x7c00u ? special : finite));
}

uint16_t ff_f16_from_f32(float value) {
    return f16_bits(value);
}

float ff_f32_from_f16(uint16_t bits) {
    return f16_value(bits);
}

double ff_element(const void *array, ff_dtype dtype, size_t index) {
    const char *at = (const char *)array + index * ff_dtype_bytes(dtype);
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

/* ---- arrays --------------------------------------------------------------------------------- */

/* One loop per type, for vectors. */
#define DEFINE_LOOP(name, to_type, from_type, convert)                                             \
    FF_CLONES static void name(void *to_base, const void *from_base, size_t count) {               \
        to_type *restrict to = to_base;                                                            \
        const from_type *restrict from = from_base;                                                \
        for (size_t i = 0; i < count; i++) to[i] = convert(from[i]);                               \
    }
DEFINE_LOOP(u8_to_f32, float, uint8_t, (float))
DEFINE_LOOP(u16_to_f32, float, uint16_t, (float))
DEFINE_LOOP(f16_to_f32, float, uint16_t, f16_value)
DEFINE_LOOP(bf16_to_f32, float, uint16_t, ff_f32_from_bf16)
DEFINE_LOOP(i32_to_f32, float, int32_t, (float))
DEFINE_LOOP(i64_to_f32, float, int64_t, (float)(double))
DEFINE_LOOP(f32_to_f16, uint16_t, float, f16_bits)
DEFINE_LOOP(f32_to_bf16, uint16_t, float, ff_bf16_from_f32)

static void f32_to_f32(void *to, const void *from, size_t count) {
    memcpy(to, from, count * sizeof(float));
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct {
    const char *name, *numpy;
    size_t bytes;
    void (*to_f32)(void *to, const void *from, size_t count);
    void (*from_f32)(void *to, const void *from, size_t count); /* floats; NULL = integer */
} dtypes[FF_DTYPE_COUNT] = {
    [FF_U8] = {"u8", "|u1", 1, u8_to_f32, NULL},
    [FF_U16] = {"u16", "<u2", 2, u16_to_f32, NULL},
    [FF_F16] = {"f16", "<f2", 2, f16_to_f32, f32_to_f16},
    [FF_BF16] = {"bf16", "<u2", 2, bf16_to_f32, f32_to_bf16}, /* NumPy has no bf16 */
    [FF_F32] = {"f32", "<f4", 4, f32_to_f32, f32_to_f32},
    [FF_I32] = {"i32", "<i4", 4, i32_to_f32, NULL},
    [FF_I64] = {"i64", "<i8", 8, i64_to_f32, NULL},
};

const char *ff_dtype_name(ff_dtype dtype) {
    return dtypes[dtype].name;
}

const char *ff_dtype_numpy(ff_dtype dtype) {
    return dtypes[dtype].numpy;
}

size_t ff_dtype_bytes(ff_dtype dtype) {
    return dtypes[dtype].bytes;
}

bool ff_dtype_is_float(ff_dtype dtype) {
    return dtypes[dtype].from_f32 != NULL;
}

ff_dtype ff_dtype_choice(int index) {
    static const ff_dtype choices[] = {FF_F16, FF_F32, FF_BF16, FF_U8, FF_U16};
    return choices[index];
}

/* If all bits of an exponent are set, adding 1 to its lowest bit carries into the sign bit. */
FF_CLONES bool ff_all_finite(const void *array, ff_dtype dtype, size_t count) {
    const uint16_t *half = array;
    const uint32_t *single = array;
    const uint16_t mask = dtype == FF_BF16 ? 0x7f80 : 0x7c00, one = dtype == FF_BF16 ? 0x80 : 0x400;
    uint16_t carried16 = 0;
    uint32_t carried32 = 0;
    if (dtype == FF_F32)
        for (size_t i = 0; i < count; i++) carried32 |= (single[i] & 0x7f800000u) + 0x800000u;
    else if (dtype == FF_F16 || dtype == FF_BF16)
        for (size_t i = 0; i < count; i++) carried16 |= (uint16_t)((half[i] & mask) + one);
    return !(carried32 & 0x80000000u) && !(carried16 & 0x8000u);
}

void ff_convert(void *to, ff_dtype to_dtype, const void *from, ff_dtype from_dtype, size_t count) {
    if (to_dtype == from_dtype) {
        memcpy(to, from, count * dtypes[to_dtype].bytes);
    } else if (from_dtype == FF_F32) {
        assert(dtypes[to_dtype].from_f32);
        dtypes[to_dtype].from_f32(to, from, count);
    } else if (to_dtype == FF_F32) {
        dtypes[from_dtype].to_f32(to, from, count);
    } else {
        assert(dtypes[to_dtype].from_f32);
        enum { SOME = 256 };
        float some[SOME];
        for (size_t at = 0; at < count; at += SOME) {
            size_t n = count - at < SOME ? count - at : SOME;
            dtypes[from_dtype].to_f32(some, (const char *)from + at * dtypes[from_dtype].bytes, n);
            dtypes[to_dtype].from_f32((char *)to + at * dtypes[to_dtype].bytes, some, n);
        }
    }
}
