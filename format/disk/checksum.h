/* XXH3, the format's only checksum (xxHash specification 0.2.0): 64 bits for data, 128 bits in
 * canonical (big-endian) form for ids. Thread rule: pure, except for a stream's own state. */
#ifndef FF_FORMAT_CHECKSUM_H
#define FF_FORMAT_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#ifdef FF_HAVE_XXH_DISPATCH
#include <xxh_x86dispatch.h> /* the same functions, dispatched by instruction set */
#else
#include <xxhash.h>
#endif

/* libxxhash's functions for AVX2 and AVX-512 return with the upper halves of the vector registers
 * in use, in 0.8.1 at least. Intel's processors then run everything that is compiled for SSE up to
 * 27 times as slowly (measured: log and cos, 370 ns instead of 14), until these halves are zero. */
static inline void ff_hash_done(void) {
#if defined(FF_HAVE_XXH_DISPATCH) && defined(__x86_64__)
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroupper" ::
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                               "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
                               "xmm15");
#endif
}

static inline uint64_t ff_checksum(const void *bytes, size_t length) {
    const uint64_t hash = XXH3_64bits(bytes, length);
    ff_hash_done();
    return hash;
}

/* The same with a seed: each seed is another function; seed 0 is ff_checksum. */
static inline uint64_t ff_checksum_seeded(const void *bytes, size_t length, uint64_t seed) {
    const uint64_t hash = XXH3_64bits_withSeed(bytes, length, seed);
    ff_hash_done();
    return hash;
}

/* 128 bits: of bytes, and of a stream. */
static inline XXH128_hash_t ff_hash_of(const void *bytes, size_t length) {
    const XXH128_hash_t hash = XXH3_128bits(bytes, length);
    ff_hash_done();
    return hash;
}

static inline void ff_hash_update(XXH3_state_t *state, const void *bytes, size_t length) {
    (void)!XXH3_128bits_update(state, bytes, length);
    ff_hash_done();
}

static inline XXH128_hash_t ff_hash_digest(const XXH3_state_t *state) {
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    ff_hash_done();
    return hash;
}

/* The 16 bytes of an id, as stored in files and printed in hexadecimal. */
static inline void ff_id_store(uint8_t id[16], XXH128_hash_t hash) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    for (int i = 0; i < 16; i++) id[i] = canonical.digest[i];
}

static inline void ff_id_of(uint8_t id[16], const void *bytes, size_t length) {
    ff_id_store(id, ff_hash_of(bytes, length));
}

#endif
