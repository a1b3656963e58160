/* The 16-bit floats of cuda_fp16.h and cuda_bf16.h for the simulator: storage, conversions with
 * rounding to nearest even, and arithmetic as the hardware's (computed in f32 or wider, rounded
 * once). Part of cuda_sim.h. */
#ifndef FF_CUDA_SIM_HALF_H
#define FF_CUDA_SIM_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

struct alignas(2) __half {
    uint16_t ff_bits;
};
struct alignas(2) __nv_bfloat16 {
    uint16_t ff_bits;
};
struct alignas(4) __half2 {
    __half x, y;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline uint32_t __float_as_uint(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline float __uint_as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline int __float_as_int(float value) {
    return (int)__float_as_uint(value);
}
static inline float __int_as_float(int bits) {
    return __uint_as_float((uint32_t)bits);
}

/* ---- conversions ---------------------------------------------------------------------------- */

static inline __half __float2half_rn(float value) {
    uint32_t bits = __float_as_uint(value), sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return __half{0x7fff}; /* the hardware's one NaN */
    if (bits >= 0x477ff000) return __half{(uint16_t)(sign | 0x7c00)};
    if (bits < 0x38800000) { /* subnormal: a multiple of 2^-24 */
        float scaled = __uint_as_float(bits) * 16777216.0f;
        return __half{(uint16_t)(sign | (uint32_t)nearbyintf(scaled))};
    }
    bits += 0xfff + (bits >> 13 & 1);
    return __half{(uint16_t)(sign | (bits - 0x38000000) >> 13)};
}
static inline float __half2float(__half value) {
    uint32_t sign = (uint32_t)(value.ff_bits & 0x8000) << 16;
    uint32_t exponent = value.ff_bits >> 10 & 31, fraction = value.ff_bits & 1023;
    if (exponent == 0) {
        float magnitude = (float)fraction * 5.9604644775390625e-8f;
        return sign ? -magnitude : magnitude;
    }
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000 | fraction << 13);
    return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float value) {
    uint32_t bits = __float_as_uint(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return __nv_bfloat16{0x7fff};
    return __nv_bfloat16{(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
static inline float __bfloat162float(__nv_bfloat16 value) {
    return __uint_as_float((uint32_t)value.ff_bits << 16);
}
static inline __half __float2half(float value) {
    return __float2half_rn(value);
}
static inline __nv_bfloat16 __float2bfloat16(float value) {
    return __float2bfloat16_rn(value);
}
static inline uint16_t __half_as_ushort(__half value) {
    return value.ff_bits;
}
static inline __half __ushort_as_half(uint16_t bits) {
    return __half{bits};
}
static inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 value) {
    return value.ff_bits;
}
static inline __nv_bfloat16 __ushort_as_bfloat16(uint16_t bits) {
    return __nv_bfloat16{bits};
}

/* ---- pairs ---------------------------------------------------------------------------------- */

static inline __half2 __halves2half2(__half low, __half high) {
    return __half2{low, high};
}
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) {
    return __nv_bfloat162{low, high};
}
static inline __half2 __floats2half2_rn(float low, float high) {
    return __half2{__float2half_rn(low), __float2half_rn(high)};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
    return __nv_bfloat162{__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}
static inline __half2 __float22half2_rn(float2 pair) {
    return __floats2half2_rn(pair.x, pair.y);
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 pair) {
    return __floats2bfloat162_rn(pair.x, pair.y);
}
static inline __half2 __float2half2_rn(float value) {
    return __floats2half2_rn(value, value);
}
static inline __nv_bfloat162 __float2bfloat162_rn(float value) {
    return __floats2bfloat162_rn(value, value);
}
static inline float2 __half22float2(__half2 pair) {
    return make_float2(__half2float(pair.x), __half2float(pair.y));
}
static inline float2 __bfloat1622float2(__nv_bfloat162 pair) {
    return make_float2(__bfloat162float(pair.x), __bfloat162float(pair.y));
}
static inline float __low2float(__half2 pair) {
    return __half2float(pair.x);
}
static inline float __high2float(__half2 pair) {
    return __half2float(pair.y);
}
static inline float __low2float(__nv_bfloat162 pair) {
    return __bfloat162float(pair.x);
}
static inline float __high2float(__nv_bfloat162 pair) {
    return __bfloat162float(pair.y);
}

static inline __half __low2half(__half2 pair) {
    return pair.x;
}
static inline __half __high2half(__half2 pair) {
    return pair.y;
}
static inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 pair) {
    return pair.x;
}
static inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 pair) {
    return pair.y;
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

/* One operation in f32 of 11- or 8-bit numbers rounds as one in their own precision. A fused
 * multiply-add is done in f64, whose sum may round a second time only beyond 53 bits. */
#define FF_SIM_ARITHMETIC(type, pair, to_float, from_float)                                        \
    static inline type __hadd(type a, type b) {                                                    \
        return from_float(to_float(a) + to_float(b));                                              \
    }                                                                                              \
    static inline type __hsub(type a, type b) {                                                    \
        return from_float(to_float(a) - to_float(b));                                              \
    }                                                                                              \
    static inline type __hmul(type a, type b) {                                                    \
        return from_float(to_float(a) * to_float(b));                                              \
    }                                                                                              \
    static inline type __hfma(type a, type b, type c) {                                            \
        return from_float((float)((double)to_float(a) * to_float(b) + to_float(c)));               \
    }                                                                                              \
    static inline type __hmax(type a, type b) {                                                    \
        return from_float(fmaxf(to_float(a), to_float(b)));                                        \
    }                                                                                              \
    static inline type __hmin(type a, type b) {                                                    \
        return from_float(fminf(to_float(a), to_float(b)));                                        \
    }                                                                                              \
    static inline pair __hadd2(pair a, pair b) {                                                   \
        return pair{__hadd(a.x, b.x), __hadd(a.y, b.y)};                                           \
    }                                                                                              \
    static inline pair __hsub2(pair a, pair b) {                                                   \
        return pair{__hsub(a.x, b.x), __hsub(a.y, b.y)};                                           \
    }                                                                                              \
    static inline pair __hmul2(pair a, pair b) {                                                   \
        return pair{__hmul(a.x, b.x), __hmul(a.y, b.y)};                                           \
    }                                                                                              \
    static inline pair __hfma2(pair a, pair b, pair c) {                                           \
        return pair{__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                 \
    }                                                                                              \
    static inline pair __hmax2(pair a, pair b) {                                                   \
        return pair{__hmax(a.x, b.x), __hmax(a.y, b.y)};                                           \
    }                                                                                              \
    static inline pair __hmin2(pair a, pair b) {                                                   \
        return pair{__hmin(a.x, b.x), __hmin(a.y, b.y)};                                           \
    }
FF_SIM_ARITHMETIC(__half, __half2, __half2float, __float2half_rn)
FF_SIM_ARITHMETIC(__nv_bfloat16, __nv_bfloat162, __bfloat162float, __float2bfloat16_rn)
#undef FF_SIM_ARITHMETIC

#endif
