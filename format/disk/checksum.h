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

static inline uint64_t ff_checksum(const void *bytes, size_t length) {
    return XXH3_64bits(bytes, length);
}

/* The same with a seed: each seed is another function; seed 0 is ff_checksum. */
static inline uint64_t ff_checksum_seeded(const void *bytes, size_t length, uint64_t seed) {
    return XXH3_64bits_withSeed(bytes, length, seed);
}

/* The 16 bytes of an id, as stored in files and printed in hexadecimal. */
static inline void ff_id_store(uint8_t id[16], XXH128_hash_t hash) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    for (int i = 0; i < 16; i++) id[i] = canonical.digest[i];
}

static inline void ff_id_of(uint8_t id[16], const void *bytes, size_t length) {
    ff_id_store(id, XXH3_128bits(bytes, length));
}

#endif
