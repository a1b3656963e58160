/* Vectors of floats, and per-function instruction sets for the kernels of training.
 *
 * Kernels are written once, in a header that is included once per block of channels and instruction
 * set. 16 lanes are one AVX-512 register, 8 lanes an AVX2 register; these are the blocks that
 * oneDNN uses on these processors. The baseline is for all other processors. All variants do the
 * same operations in the same order, so results have the same bits (built with -ffp-contract=off),
 * except those of depthwise convolutions, whose products and sums are rounded once in AVX2 and
 * AVX-512.
 *
 * target_clones is only for plain loops (FF_VECTOR_CLONES): GCC splits vector types for the default
 * instruction set before it clones. Clones are by feature ("avx2"), not by processor name: GCC
 * resolves arch=haswell to that one Intel processor, and every AMD would run the SSE2 version. A
 * cloned function must not contain an OpenMP region, because GCC moves its body out before it
 * clones. */
#ifndef FF_TRAIN_CPU_VECTOR_H
#define FF_TRAIN_CPU_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(FF_NO_CLONES)
#define FF_VECTOR_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#define FF_AVX2          __attribute__((target("avx2,fma")))
#define FF_AVX512        __attribute__((target("avx512f")))
#define FF_HAS_TARGETS   1
#else
#define FF_VECTOR_CLONES
#define FF_HAS_TARGETS 0
#endif

/* Whether kernels of the instruction set that fits the block can run here. */
static inline bool ff_has_vectors(int block) {
#if FF_HAS_TARGETS
    if (block == 16) return __builtin_cpu_supports("avx512f");
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    (void)block;
    return false;
#endif
}

#define FF_INLINE static inline __attribute__((always_inline))

/* Floats, the integers of their comparisons, their bits, and the bits of 16-bit elements, one per
 * channel of a block; ff_v4 is half a block of 8. */
typedef float ff_v4 __attribute__((vector_size(16), may_alias));
typedef float ff_v8 __attribute__((vector_size(32), may_alias));
typedef int ff_m8 __attribute__((vector_size(32), may_alias));
typedef uint32_t ff_w8 __attribute__((vector_size(32), may_alias));
typedef uint16_t ff_h8 __attribute__((vector_size(16), may_alias));
typedef float ff_v16 __attribute__((vector_size(64), may_alias));
typedef int ff_m16 __attribute__((vector_size(64), may_alias));
typedef uint32_t ff_w16 __attribute__((vector_size(64), may_alias));
typedef uint16_t ff_h16 __attribute__((vector_size(32), may_alias));

/* The share [*from, *to) of `count` items for thread `index` of `threads`: contiguous, and the same
 * in every run. */
static inline void ff_share(size_t count, int threads, int index, size_t *from, size_t *to) {
    *from = count * (size_t)index / (size_t)threads;
    *to = count * (size_t)(index + 1) / (size_t)threads;
}

#endif
