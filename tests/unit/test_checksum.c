/* Checksums: the values of the xxHash specification, and the vector registers that they leave. */
#include "tests/unit/check.h"

#include "format/disk/checksum.h"

#include <string.h>

enum { BYTES = 4096, REGISTERS = 16, FLOATS = 8 };

static void values_are_the_specification_s(void **state) {
    (void)state;
    /* the bytes of xxHash's own sanity check, and its results */
    const uint64_t prime32 = 2654435761u, prime64 = 11400714785074694797u;
    uint64_t generator = prime32;
    uint8_t bytes[2048];
    for (size_t i = 0; i < sizeof bytes; i++, generator *= prime64)
        bytes[i] = (uint8_t)(generator >> 56);
    assert_int_equal(ff_checksum(bytes, 0), 0x2d06800538d394c2u);
    assert_int_equal(ff_checksum(bytes, 2048), 0xdd59e2c3a5f038e0u);
    assert_int_equal(ff_checksum_seeded(bytes, 2048, prime64), 0x66f81670669ababcu);
    const XXH128_hash_t hash = ff_hash_of(bytes, 2367 - 320);
    XXH3_state_t *stream = XXH3_createState();
    assert_non_null(stream);
    XXH3_128bits_reset(stream);
    ff_hash_update(stream, bytes, 1000);
    ff_hash_update(stream, bytes + 1000, 1047);
    assert_true(XXH128_isEqual(hash, ff_hash_digest(stream)));
    XXH3_freeState(stream);
}

#if defined(__x86_64__) && defined(__GNUC__)

/* The upper halves of ymm0 to ymm15. */
__attribute__((target("avx"))) static void assert_clean(void) {
    float all[REGISTERS][FLOATS];
    __asm__ volatile("vmovups %%ymm0, (%0)\n vmovups %%ymm1, 32(%0)\n vmovups %%ymm2, 64(%0)\n"
                     "vmovups %%ymm3, 96(%0)\n vmovups %%ymm4, 128(%0)\n vmovups %%ymm5, 160(%0)\n"
                     "vmovups %%ymm6, 192(%0)\n vmovups %%ymm7, 224(%0)\n vmovups %%ymm8, 256(%0)\n"
                     "vmovups %%ymm9, 288(%0)\n vmovups %%ymm10, 320(%0)\n"
                     "vmovups %%ymm11, 352(%0)\n vmovups %%ymm12, 384(%0)\n"
                     "vmovups %%ymm13, 416(%0)\n vmovups %%ymm14, 448(%0)\n"
                     "vmovups %%ymm15, 480(%0)" ::"r"(all)
                     : "memory");
    const float zeros[FLOATS / 2] = {0};
    for (int i = 0; i < REGISTERS; i++)
        assert_memory_equal(all[i] + FLOATS / 2, zeros, sizeof zeros);
}

static void registers_are_left_clean(void **state) {
    (void)state;
    uint8_t bytes[BYTES];
    if (!__builtin_cpu_supports("avx")) skip();
    memset(bytes, 0x5a, sizeof bytes);
    uint64_t sum = ff_checksum(bytes, sizeof bytes);
    assert_clean();
    sum += ff_checksum_seeded(bytes, sizeof bytes, 3);
    assert_clean();
    sum += ff_hash_of(bytes, sizeof bytes).low64;
    assert_clean();
    XXH3_state_t *stream = XXH3_createState();
    assert_non_null(stream);
    XXH3_128bits_reset(stream);
    ff_hash_update(stream, bytes, sizeof bytes);
    assert_clean();
    sum += ff_hash_digest(stream).low64;
    assert_clean();
    assert_int_not_equal(sum, 0);
    XXH3_freeState(stream);
}

#else

static void registers_are_left_clean(void **state) {
    (void)state;
    skip();
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_the_specification_s),
        cmocka_unit_test(registers_are_left_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
