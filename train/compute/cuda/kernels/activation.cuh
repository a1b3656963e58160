/* Activations and their derivatives, on floats. T is the dtype that the result is rounded to: for
 * 16 bits GELU uses a faster approximation, whose error is far below the rounding. */
#ifndef FF_TRAIN_CUDA_KERNELS_ACTIVATION_CUH
#define FF_TRAIN_CUDA_KERNELS_ACTIVATION_CUH

#include "train/compute/cuda/kernels/vectors.cuh"

/* The normal distribution Phi(z) and its density, with one exponential and one reciprocal:
 * 1 - erf(u) = t (a1 + t (a2 + ...)) exp(-u^2), t = 1 / (1 + p u), u = |z| / sqrt 2, to 1.5e-7
 * (Abramowitz & Stegun, Handbook of Mathematical Functions, 7.1.26). */
static __device__ __forceinline__ float ff_normal_fast(float z, float *density) {
    float u = fabsf(z) * 0.70710678f;
    float t = __fdividef(1.0f, 1.0f + 0.3275911f * u);
    float bell = __expf(-u * u);
    float sum = 1.061405429f;
    sum = sum * t - 1.453152027f;
    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    float tail = 0.5f * sum * t * bell;
    *density = 0.39894228f * bell;
    return z < 0 ? tail : 1.0f - tail;
}
static __device__ __forceinline__ float ff_normal_exact(float z, float *density) {
    *density = 0.39894228f * expf(-0.5f * z * z);
    return 0.5f * (1.0f + erff(z * 0.70710678f));
}
template <typename T> static __device__ __forceinline__ float ff_normal(float z, float *density) {
    return sizeof(T) == 2 ? ff_normal_fast(z, density) : ff_normal_exact(z, density);
}

template <typename T, int activation> static __device__ __forceinline__ float ff_activate(float z) {
    if (activation == FF_ACTIVATION_RELU) return z < 0 ? 0.0f : z; /* NaN passes, as in torch */
    if (activation == FF_ACTIVATION_RELU6) return z < 0 ? 0.0f : z > 6 ? 6.0f : z;
    if (activation == FF_ACTIVATION_GELU) {
        float density;
        return z * ff_normal<T>(z, &density);
    }
    return z;
}

/* g times the derivative at z; ReLU and ReLU6 also take their output for z. */
template <typename T, int activation>
static __device__ __forceinline__ float ff_activate_backward(float z, float g) {
    if (activation == FF_ACTIVATION_RELU) return z > 0 ? g : 0.0f;
    if (activation == FF_ACTIVATION_RELU6) return z > 0 && z < 6 ? g : 0.0f;
    if (activation == FF_ACTIVATION_GELU) {
        float density, normal = ff_normal<T>(z, &density);
        return g * (normal + z * density);
    }
    return g;
}

#endif
