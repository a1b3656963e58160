/* Per-function instruction sets: one source, compiled once per instruction set; the clone for this
 * CPU is chosen when the program starts. Results are bit-identical in all clones because everything
 * is built with -ffp-contract=off. Off under the sanitizers, whose runtimes start later than ifunc
 * resolvers. */
#ifndef FF_BASE_COMPILER_H
#define FF_BASE_COMPILER_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(FF_NO_CLONES)
/* By feature: GCC matches "arch=haswell" only with those Intel models; other CPUs would get the
 * baseline. */
#define FF_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define FF_CLONES
#endif

/* For loops over bytes with fused multiply-adds, which AVX2 alone does not have; AVX-512F alone has
 * no vectors of bytes. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(FF_NO_CLONES) &&   \
    __GNUC__ >= 12
#define FF_FMA_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define FF_FMA_CLONES FF_CLONES
#endif

#endif
