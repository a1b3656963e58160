/* Vectors of floats, and per-function instruction sets for the kernels of training.
 *
 * One ff_v16 is one AVX-512 register, two of AVX2, four of SSE2: the same operations in the same
 * order in each, so all give the same bits (built with -ffp-contract=off).
 *
 * Clones go by feature ("avx2"), not by processor name: GCC resolves arch=haswell to that one Intel
 * processor, and every AMD would run the SSE2 version. A cloned function must not hold an OpenMP
 * region: GCC moves its body into a function of its own before it clones. */
#ifndef FF_TRAIN_CPU_VECTOR_H
#define FF_TRAIN_CPU_VECTOR_H

#include <stddef.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(FF_NO_CLONES)
#define FF_VECTOR_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define FF_VECTOR_CLONES
#endif

#define FF_INLINE static inline __attribute__((always_inline))

/* Floats, the integers of their comparisons, and bytes, one a channel of a block. */
typedef float ff_v8 __attribute__((vector_size(32), may_alias));
typedef int ff_m8 __attribute__((vector_size(32), may_alias));
typedef signed char ff_b8 __attribute__((vector_size(8), may_alias));
typedef float ff_v16 __attribute__((vector_size(64), may_alias));
typedef int ff_m16 __attribute__((vector_size(64), may_alias));
typedef signed char ff_b16 __attribute__((vector_size(16), may_alias));

/* The part [*from, *to) of `count` things that thread `index` of `threads` takes: contiguous, and
 * the same in every run. */
static inline void ff_share(size_t count, int threads, int index, size_t *from, size_t *to) {
    *from = count * (size_t)index / (size_t)threads;
    *to = count * (size_t)(index + 1) / (size_t)threads;
}

#endif
