/* GELU and its derivative in arithmetic that compilers vectorize: no calls, no branches. */
#ifndef FF_TRAIN_CPU_GELU_H
#define FF_TRAIN_CPU_GELU_H

#include "train/compute/vector.h"

#include <stdint.h>

/* erf(x), within 4e-7: a quotient of polynomials on [-4, 4], beyond which erf is 1 in f32
 * (coefficients: Eigen's generic_fast_erf_float). NaN passes. */
FF_INLINE float ff_fast_erf(float x) {
    x = x > 4.0f ? 4.0f : x;
    x = x < -4.0f ? -4.0f : x;
    float s = x * x;
    float p = -2.72614225801306e-10f;
    p = p * s + 2.77068142495902e-08f;
    p = p * s - 2.10102402082508e-06f;
    p = p * s - 5.69250639462346e-05f;
    p = p * s - 7.34990630326855e-04f;
    p = p * s - 2.95459980854025e-03f;
    p = p * s - 1.60960333262415e-02f;
    float q = -1.45660718464996e-05f;
    q = q * s - 2.13374055278905e-04f;
    q = q * s - 1.68282697438203e-03f;
    q = q * s - 7.37332916720468e-03f;
    q = q * s - 1.42647390514189e-02f;
    return x * p / q;
}

/* exp(x) for x <= 0, within 2e-7 of 1: 2^n times a polynomial in the remainder of x / ln 2. */
FF_INLINE float ff_fast_exp(float x) {
    x = x < -87.0f ? -87.0f : x;
    float scaled = x * 1.44269504f;
    float whole = (scaled + 12582912.0f) - 12582912.0f; /* rounds to the nearest integer */
    float r = x - whole * 0.693145752f - whole * 1.42860677e-06f;
    float p = 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    union {
        uint32_t bits;
        float value;
    } power = {.bits = ((uint32_t)(int32_t)whole + 127u) << 23};
    return p * power.value;
}

FF_INLINE float ff_gelu(float z) {
    return z * (0.5f + 0.5f * ff_fast_erf(z * 0.707106781f));
}

FF_INLINE float ff_gelu_slope(float z) {
    float phi = 0.5f + 0.5f * ff_fast_erf(z * 0.707106781f);
    return phi + z * 0.398942280f * ff_fast_exp(-0.5f * z * z);
}

#endif
